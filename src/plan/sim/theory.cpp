#include "plan/sim/theory.h"

#include <cmath>
#include <functional>

#include "base/check.h"
#include "plan/sim/simulator.h"
#include "traffic/random.h"

namespace weir::plan::sim {

using traffic::Random;

namespace {

// A mean service is so many tokens of prompt, so times are rounded to a ten-thousandth of it.
constexpr double kTokens = 10000;
constexpr std::int64_t kCustomersOfRun = 250'000;

class Pace final : public StepModel {
 public:
  double step_s(const StepShape& shape) const override { return static_cast<double>(shape.tokens) / kTokens; }
};

struct Queue {
  std::string name;
  double load = 0;
  double second_moment = 0;  // of a service of mean 1
  std::function<double(Random&)> service;
};

struct Run {
  double wait_s = 0, in_system_s = 0, stay_s = 0, service_s = 0, span_s = 0;
  std::int64_t customers = 0;
};

void simulate_run(const Queue& queue, std::int64_t customers, std::uint64_t seed, Run& total) {
  static const Pace pace;
  Random gaps(seed, 1), services(seed, 2);
  Workload workload;
  double at_s = 0;
  for (std::int64_t i = 0; i < customers; ++i) {
    at_s += gaps.exponential() / queue.load;
    const auto tokens = std::max<std::int64_t>(1, std::llround(kTokens * queue.service(services)));
    workload.requests.push_back({at_s, std::min(tokens, kMostTokens), 0, 0, 0, 0});
  }
  Cluster cluster;
  cluster.instance.scheduler = {.max_num_seqs = 1, .max_num_batched_tokens = 1 << 24, .enable_prefix_caching = false};
  cluster.instance.block_tokens = 1 << 24;
  cluster.instance.num_blocks = 1;
  cluster.instance.model = &pace;
  const auto result = simulate(cluster, workload);
  CHECK(result.has_value(), "{}", result.error().message);
  for (const RequestResult& request : result->requests) {
    total.wait_s += request.scheduled_s - request.sent_s;
    total.stay_s += request.e2e_s();
  }
  total.in_system_s += result->in_system_s;
  total.span_s += result->end_s;
  total.service_s += result->instances[0].busy_s;
  total.customers += customers;
}

}  // namespace

std::vector<TheoryRow> compare_with_theory(std::int64_t customers, std::uint64_t seed) {
  const std::vector<Queue> queues = {
      {"M/M/1, load 0.5", 0.5, 2, [](Random& r) { return r.exponential(); }},
      {"M/D/1, load 0.5", 0.5, 1, [](Random&) { return 1.0; }},
      {"M/G/1, uniform service, load 0.5", 0.5, 4.0 / 3, [](Random& r) { return 2 * r.uniform(); }},
  };
  std::vector<TheoryRow> rows;
  for (const Queue& queue : queues) {
    Run total;
    for (std::int64_t done = 0; done < customers; done += kCustomersOfRun) {
      simulate_run(queue, std::min(kCustomersOfRun, customers - done), mix(seed, static_cast<std::uint64_t>(done)),
                   total);
    }
    const auto n = static_cast<double>(total.customers);
    const double wait = queue.load * queue.second_moment / 2 / (1 - queue.load);
    rows.push_back({queue.name, "mean wait, in mean services", wait, total.wait_s / n});
    rows.push_back({queue.name, "share of time the server is busy", queue.load, total.service_s / total.span_s});
    // L = lambda W, both as they were simulated: the left side integrates over the clock, the right adds up requests.
    rows.push_back({queue.name, "Little: requests in the system", n / total.span_s * (total.stay_s / n),
                    total.in_system_s / total.span_s});
  }
  return rows;
}

Report theory_report(std::int64_t customers, std::uint64_t seed) {
  Report report;
  report.text = fmt::format("{} requests a queue, seed {}\n\n{:<36}{:<36}{:>10}{:>11}{:>9}\n", customers, seed, "queue",
                            "measure", "theory", "simulated", "error");
  report.json = {{"customers", customers}, {"seed", seed}, {"rows", nlohmann::ordered_json::array()}};
  double worst = 0;
  for (const TheoryRow& row : compare_with_theory(customers, seed)) {
    report.text += fmt::format("{:<36}{:<36}{:>10.4f}{:>11.4f}{:>8.2f}%\n", row.queue, row.what, row.expected,
                               row.simulated, 100 * row.error());
    report.json["rows"].push_back({{"queue", row.queue},
                                   {"measure", row.what},
                                   {"theory", row.expected},
                                   {"simulated", row.simulated},
                                   {"error", row.error()}});
    worst = std::max(worst, std::abs(row.error()));
  }
  report.json["worst_error"] = worst;
  report.text += fmt::format("\nworst error {:.2f} %\n", 100 * worst);
  return report;
}

}  // namespace weir::plan::sim
