#include "apps/validate_live.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "apps/child_server.h"
#include "base/printable.h"
#include "driver/metrics.h"
#include "plan/sim/simulator.h"

namespace weir::apps {
namespace {

constexpr int kPrefixGroups = 4;
constexpr std::int64_t kPrefixTokens = 96;
constexpr const char* kPromptLengths = "lognormal:64:0.6:8:400";
constexpr const char* kOutputLengths = "uniform:8:40";
constexpr std::size_t kFewestRequests = 16, kMostRequests = 5000;
constexpr std::size_t kCapacityRequests = 160;

// One server each, with three arrival processes; the loads, in parts of the capacity, are spread so that each process
// and setting meets low and high ones.
struct Setting {
  ServerSetting server;
  double load[3];  // of poisson, gamma and burst
};
constexpr Setting kSettings[] = {{{true, 512}, {0.8, 0.5, 1.2}},
                                 {{false, 128}, {0.6, 0.9, 0.4}},
                                 {{true, 128}, {1.0, 0.7, 0.6}},
                                 {{false, 512}, {1.2, 0.4, 0.8}}};
constexpr const char* kArrivals[] = {"poisson", "gamma", "burst"};

std::string arrivals_text(std::size_t process, double rate) {
  constexpr double kCv = 2;
  constexpr int kBurst = 4;
  if (process == 0) return fmt::format("poisson:{:.6f}", rate);
  return process == 1 ? fmt::format("gamma:{:.6f}:{}", rate, kCv) : fmt::format("burst:{:.6f}:{}", rate, kBurst);
}

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double v : values) sum += v;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

double p99(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return driver::quantile(values, 0.99);
}

LiveFigures figures_of(const driver::RunResult& run) {
  std::vector<double> tpot, e2e, ttft;
  std::int64_t tokens = 0;
  for (const auto& r : run.records) {
    ttft.push_back(r.ttft_s());
    e2e.push_back(r.e2e_s());
    if (r.output_tokens > 1) tpot.push_back(r.tpot_s());
    tokens += r.output_tokens;
  }
  return {static_cast<double>(tokens) / (run.end_s - run.start_s), mean(tpot), mean(e2e), mean(ttft), p99(ttft)};
}

LiveFigures figures_of(const plan::sim::SimResult& result) {
  std::vector<double> tpot, e2e, ttft;
  std::int64_t tokens = 0;
  double end_s = 0;
  for (const auto& r : result.requests) {
    ttft.push_back(r.ttft_s());
    e2e.push_back(r.e2e_s());
    if (r.output_tokens > 1) tpot.push_back(r.tpot_s());
    tokens += r.output_tokens;
    end_s = std::max(end_s, r.last_s);
  }
  return {static_cast<double>(tokens) / end_s, mean(tpot), mean(e2e), mean(ttft), p99(ttft)};
}

// The load of one scenario.
driver::WorkloadSpec scenario_load(const LiveModel& model, std::size_t requests, const std::string& arrivals,
                                   std::uint64_t seed) {
  driver::WorkloadSpec spec = load_of(model, seed);
  spec.requests = requests;
  spec.arrivals = *traffic::parse_arrivals(arrivals);
  spec.prompt = *traffic::parse_lengths("input-len", kPromptLengths);
  spec.output = *traffic::parse_lengths("output-len", kOutputLengths);
  spec.prefix_groups = kPrefixGroups;  // cache off: the same prompts, computed
  spec.prefix_tokens = kPrefixTokens;
  return spec;
}

// Requests a second that the server can take, as the simulator sees it: many at once.
Result<double> capacity_of(const LiveSide& side) {
  WEIR_TRY(const auto result, side.predict(scenario_load(side.model(), kCapacityRequests, "at-once", 0x636170), 1));
  double end_s = 0;
  for (const auto& r : result.requests) end_s = std::max(end_s, r.last_s);
  return static_cast<double>(result.requests.size()) / end_s;
}

// Lines on stderr, where they are in no result's way: a run takes minutes.
class Progress {
 public:
  explicit Progress(std::size_t runs) : runs_(runs) {}
  void say(const std::string& text) const { fmt::print(stderr, "{}\n", text); }
  void ended(const LiveScenario& s, int of) {
    const auto error = [](double predicted, double measured) { return 100 * (predicted / measured - 1); };
    const LiveFigures& seen = s.measured.back();
    const LiveFigures& said = s.predicted.back();
    say(fmt::format(
        "[{}/{}] {} {} cache {} chunk {} load {:.0f} %, run {} of {}: {:.1f} tok/s ({:+.1f} %), TPOT {:.2f} ms "
        "({:+.1f} %), TTFT {:.1f} ms ({:+.1f} %)",
        ++done_, runs_, s.model, s.arrivals, s.cache ? "on" : "off", s.chunk, 100 * s.load, s.measured.size(), of,
        seen.output_tok_s, error(said.output_tok_s, seen.output_tok_s), 1e3 * seen.tpot_s,
        error(said.tpot_s, seen.tpot_s), 1e3 * seen.ttft_s, error(said.ttft_s, seen.ttft_s)));
  }

 private:
  std::size_t runs_, done_ = 0;
};

std::size_t settings_tried(const ValidateLiveOptions& options) {
  const std::size_t all = std::size(kSettings);
  return options.most_servers > 0 ? std::min(all, options.most_servers) : all;
}

// Seconds, about: a run is its arrivals, the rest of what was sent, and the reference load before it.
double expected_s(const ValidateLiveOptions& options) {
  constexpr double kPerRun_s = 2.5, kOverhang = 1.2, kPerServer_s = 3, kMemory_s = 6;
  const double run_s = options.seconds * kOverhang + kPerRun_s;
  const double setting_s = kPerServer_s + run_s * static_cast<double>(options.runs) * std::size(kArrivals);
  double all_s = 0;
  for (std::size_t i = 0; i < options.models.size(); ++i) {
    if (i >= options.step_models.size()) all_s += options.calibration_s + kMemory_s;
    all_s += setting_s * static_cast<double>(settings_tried(options));
  }
  return all_s;
}

Status run_setting(const LiveSide& side, const Setting& setting, const ValidateLiveOptions& options,
                   std::vector<LiveScenario>& scenarios, std::vector<LiveMemory>& memory, Progress& progress) {
  WEIR_TRY(const double capacity, capacity_of(side));
  WEIR_TRY(const auto server, ChildServer::start(side.arguments()));
  const std::string url = server->base_url();
  WEIR_TRY(const double first, reference_s(url, side.model(), options.seed + 77));  // touches the weights
  (void)first;
  std::uint64_t reference_seed = options.seed + 1000;
  WEIR_TRY(double before, reference_s(url, side.model(), reference_seed));
  std::vector<LiveScenario> mine(std::size(kArrivals));
  WrittenBlocks written(side);
  for (int run = 0; run < options.runs; ++run) {
    for (std::size_t process = 0; process < std::size(kArrivals); ++process) {
      LiveScenario& s = mine[process];
      s.model = side.model().name;
      s.arrivals = kArrivals[process];
      s.cache = side.setting().cache;
      s.chunk = side.setting().chunk;
      s.load = setting.load[process];
      s.rate = s.load * capacity;
      s.requests = std::clamp(static_cast<std::size_t>(s.rate * options.seconds), kFewestRequests, kMostRequests);
      driver::WorkloadSpec spec =
          scenario_load(side.model(), s.requests, arrivals_text(process, s.rate), options.seed + process);
      spec.text_seed = static_cast<std::uint64_t>(run) + 1;  // else the run before has cached its prompts
      WEIR_TRY(const auto measured, run_load(url, spec));
      WEIR_TRY(const double after, reference_s(url, side.model(), ++reference_seed));
      const double slowdown = side.step().reference_s > 0 ? (before + after) / 2 / side.step().reference_s : 1;
      before = after;
      WEIR_TRY(const auto sim, side.predict(spec, slowdown));
      std::vector<double> lag;
      for (const auto& r : measured.records) lag.push_back(r.lag_s());
      s.measured.push_back(figures_of(measured));
      s.predicted.push_back(figures_of(sim));
      s.slowdown.push_back(slowdown);
      s.lag_p99_s.push_back(p99(std::move(lag)));
      written.add(spec, sim);
      progress.ended(s, options.runs);
    }
  }
  WEIR_TRY(auto resident, compare_memory(side, *server, options.seed + 5000, written));
  memory.push_back(std::move(resident));
  WEIR_RETURN_IF_ERROR(server->stop());
  for (LiveScenario& s : mine) scenarios.push_back(std::move(s));
  return {};
}

}  // namespace

Result<plan::Report> validate_live(const ValidateLiveOptions& options) {
  std::vector<LiveScenario> scenarios;
  std::vector<LiveMemory> memory;
  std::vector<plan::CalibratedStep> steps;
  const std::size_t settings = settings_tried(options),
                    scenario_count = options.models.size() * settings * std::size(kArrivals);
  Progress progress(scenario_count * static_cast<std::size_t>(options.runs));
  progress.say(
      fmt::format("{} scenarios ({} models, {} settings, {} arrival processes), {} runs of each: about {:.0f} minutes",
                  scenario_count, options.models.size(), settings, std::size(kArrivals), options.runs,
                  std::ceil(expected_s(options) / 60)));
  for (std::size_t i = 0; i < options.models.size(); ++i) {
    WEIR_TRY(const LiveModel model, read_live_model(options.models[i], kLiveBlockTokens));
    if (i < options.step_models.size()) {
      WEIR_TRY(auto step, plan::CalibratedStep::read(options.step_models[i]));
      steps.push_back(std::move(step));
    } else {
      progress.say(fmt::format("calibrating {}: about {:.0f} s", model.name, options.calibration_s));
      WEIR_TRY(auto step, calibrate({.model = options.models[i],
                                     .threads = options.threads,
                                     .seconds = options.calibration_s,
                                     .seed = options.seed}));
      steps.push_back(std::move(step));
    }
    for (std::size_t k = 0; k < settings; ++k) {
      const LiveSide side(model, steps.back(), kSettings[k].server, options.threads);
      WEIR_RETURN_IF_ERROR(run_setting(side, kSettings[k], options, scenarios, memory, progress));
    }
  }
  return live_report(scenarios, memory, steps);
}

}  // namespace weir::apps
