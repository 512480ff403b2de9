// Traces, distributions and figures: their formats, their moments, their errors.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <random>

#include "plan/sim/generate.h"
#include "plan/sim/goodput.h"
#include "plan/sim/sim_report.h"
#include "plan/sim/summary.h"
#include "plan/sim/trace.h"

namespace weir::plan::sim {

using traffic::parse_arrivals;
using traffic::parse_lengths;
using traffic::read_trace;

namespace {

class File {
 public:
  explicit File(const std::string& text) {
    path_ = testing::TempDir() + "trace_" + std::to_string(std::random_device{}());
    std::ofstream(path_) << text;
  }
  ~File() { std::remove(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

constexpr const char* kMooncake =
    R"({"timestamp": 0, "input_length": 1000, "output_length": 5, "hash_ids": [7, 8], "chat": {"id": [1, {"x": null}]}})"
    "\n"
    R"({"timestamp": 27, "input_length": 1100, "output_length": 0, "hash_ids": [7, 9, 10]})"
    "\r\n\n";

TEST(Trace, ReadsMooncakesJson) {
  const File file(kMooncake);
  const auto trace = read_trace(file.path());
  ASSERT_TRUE(trace.has_value()) << trace.error().message;
  ASSERT_EQ(trace->rows.size(), 2u);
  EXPECT_EQ(trace->rows[1].at_s, 0.027);
  EXPECT_EQ(trace->rows[1].prompt_tokens, 1100);
  EXPECT_EQ(trace->ids, (std::vector<std::uint64_t>{7, 8, 7, 9, 10}));
  const auto half = replay(*trace, {.len_scale = 1.0 / 16, .time_scale = 2});
  EXPECT_EQ(half->requests[1].prompt_tokens, 69);  // 68.75
  EXPECT_EQ(half->id_tokens, 32);
  EXPECT_EQ(half->requests[1].arrival_s, 0.054);
}

TEST(Trace, WithoutTimesCannotBeReplayed) {
  const File lengths("num_prefill_tokens,num_decode_tokens\n12,3\n");
  const auto trace = read_trace(lengths.path());
  ASSERT_TRUE(trace.has_value()) << trace.error().message;
  EXPECT_FALSE(replay(*trace, {}).has_value());
}

TEST(Trace, SpreadsTicksBySeed) {
  std::string text;
  for (int i = 0; i < 300; ++i) {
    text += fmt::format("{{\"timestamp\": {}, \"input_length\": 4, \"output_length\": 1}}\n",
                        3000 * (i / 10) + (i / 10) % 2);
  }
  const File file(text);
  const auto trace = read_trace(file.path());
  EXPECT_EQ(trace->tick_s, 3);
  const auto one = replay(*trace, {.seed = 1}), again = replay(*trace, {.seed = 1}),
             other = replay(*trace, {.seed = 2});
  EXPECT_EQ(one->requests[5].arrival_s, again->requests[5].arrival_s);
  EXPECT_NE(one->requests[5].arrival_s, other->requests[5].arrival_s);
  for (int i = 0; i < 300; ++i) {
    EXPECT_GE(one->requests[static_cast<std::size_t>(i)].arrival_s, 3 * (i / 10));
    EXPECT_LE(one->requests[static_cast<std::size_t>(i)].arrival_s, 3 * (i / 10) + 3.002);
  }
  EXPECT_NE(one->notes.at(0).find("spread"), std::string::npos);
  EXPECT_EQ(replay(*trace, {.spread = false})->requests[5].arrival_s, 0);
}

// Equal ids in equal places give equal blocks, whatever the block size; what no id covers is nobody else's.
TEST(Workload, OutlinesShareWhatIdsShare) {
  Workload workload;
  workload.id_tokens = 8;
  workload.ids = {1, 2, 3, 1, 2, 4};
  workload.requests = {{0, 24, 8, 0, 3, 0}, {0, 24, 8, 3, 3, 0}};
  for (const int block : {1, 2, 3, 4, 5, 8, 12, 16, 24}) {
    const auto a = outline(workload, 0, block), b = outline(workload, 1, block);
    ASSERT_EQ(a.size(), static_cast<std::size_t>(32 / block * kOutlineIds));
    const auto shared = static_cast<std::size_t>(16 / block * kOutlineIds);
    for (std::size_t i = 0; i + 1 < a.size(); i += 2) {
      EXPECT_EQ(a[i] == b[i] && a[i + 1] == b[i + 1], i < shared) << "block size " << block << ", block " << i / 2;
    }
  }
}

TEST(Generate, HasTheMomentsAskedFor) {
  GenerateSpec spec;
  spec.requests = 100'000;
  spec.prompt = *parse_lengths("prompt", "lognormal:700:0.8");
  spec.output = *parse_lengths("output", "uniform:10:20");
  spec.prefix_tokens = 100;
  spec.prefix_groups = 3;
  const Workload workload = generate(spec);
  ASSERT_TRUE(check_workload(workload).has_value());
  double log_sum = 0, log_squares = 0, output = 0;
  for (const Request& request : workload.requests) {
    const double value = std::log(static_cast<double>(request.prompt_tokens - 100));
    log_sum += value;
    log_squares += value * value;
    output += static_cast<double>(request.output_tokens);
    ASSERT_GE(request.output_tokens, 10);
    ASSERT_LE(request.output_tokens, 20);
  }
  EXPECT_NEAR(std::exp(log_sum / 1e5), 700, 10);
  EXPECT_NEAR(std::sqrt(log_squares / 1e5 - std::pow(log_sum / 1e5, 2)), 0.8, 0.01);
  EXPECT_NEAR(output / 1e5, 15, 0.05);
}

// The numbers MLPerf publishes for its rule of early stopping.
TEST(Summary, AsksForAsManySamplesAsMlperf) {
  EXPECT_EQ(samples_needed(0.90), 64);
  EXPECT_EQ(samples_needed(0.95), 130);
  EXPECT_EQ(samples_needed(0.99), 662);
  EXPECT_EQ(samples_needed(0.999), 6636);
}

TEST(Summary, DistributionsKnowTheirPercentiles) {
  Distribution all, first, second;
  std::vector<double> values;
  std::mt19937 random(3);
  std::lognormal_distribution<double> draw(-4, 2);
  for (int i = 0; i < 20000; ++i) {
    values.push_back(draw(random));
    all.add(values.back());
    (i % 3 ? first : second).add(values.back());
  }
  first.add(second);
  const Statistic exact = statistic_of(values);
  EXPECT_NEAR(all.mean(), exact.mean, 1e-11);
  EXPECT_NEAR(all.percentile(50), exact.p50, 1.1e-3 * exact.p50);
  EXPECT_NEAR(all.percentile(99), exact.p99, 1.1e-3 * exact.p99);
  EXPECT_EQ(all.percentile(100), first.percentile(100));
  EXPECT_EQ(all.mean(), first.mean());
  EXPECT_EQ(all.greatest(), exact.most);
}

struct Paced final : StepModel {
  double step_s(const StepShape& s) const override { return 0.01 + 1e-5 * static_cast<double>(s.tokens); }
};

Scenario paced_scenario() {
  Scenario scenario;
  scenario.models.push_back(std::make_unique<Paced>());
  scenario.cluster.instance.model = scenario.models.back().get();
  scenario.cluster.instance.scheduler.max_num_seqs = 1;  // so that capacity is known: one after the other
  scenario.cluster.instance.num_blocks = 1000;
  return scenario;
}

// One request at a time takes 1 * (0.01 + 1000e-5) + 99 * 0.01001 s; D/D/1 keeps any promise up to that rate.
TEST(Goodput, FindsTheCapacityOfADeterministicServer) {
  const Scenario scenario = paced_scenario();
  const auto load = Load::make({.arrivals = "constant:1", .prompt = "1000", .output = "100", .requests = 700});
  ASSERT_TRUE(load.has_value()) << load.error().message;
  GoodputSpec spec;
  spec.slo.ttft_s = 0.05;
  spec.seeds = 1;
  const auto found = find_goodput(scenario, *load, spec);
  ASSERT_TRUE(found.has_value()) << found.error().message;
  const double capacity = 1 / (0.02 + 99 * 0.01001);
  EXPECT_LE(found->rate, capacity * 1.001);
  EXPECT_GT(found->rate, capacity * 0.985);
}

TEST(Report, SameSeedSameBytes) {
  const Scenario scenario = paced_scenario();
  const auto load =
      Load::make({.arrivals = "gamma:0.5:2", .prompt = "lognormal:300:1", .output = "uniform:1:30", .requests = 200});
  ASSERT_TRUE(load.has_value()) << load.error().message;
  SimSpec spec;
  spec.slo.ttft_s = 0.1;
  spec.seeds = 3;
  spec.want_page = spec.want_picture = spec.want_requests = true;
  const auto once = simulate_load(scenario, *load, spec), again = simulate_load(scenario, *load, spec);
  ASSERT_TRUE(once.has_value() && again.has_value());
  EXPECT_EQ(once->report.json.dump(), again->report.json.dump());
  EXPECT_EQ(once->report.text, again->report.text);
  EXPECT_EQ(once->page, again->page);
  EXPECT_EQ(once->picture, again->picture);
  EXPECT_EQ(once->requests, again->requests);
  EXPECT_EQ(std::count(once->requests.begin(), once->requests.end(), '\n'), 201);
  EXPECT_GT(once->report.json["over_seeds"]["ttft_mean_ms"]["half_width_95"].get<double>(), 0);
  spec.seed = 2;
  EXPECT_NE(once->report.json["result"].dump(), simulate_load(scenario, *load, spec)->report.json["result"].dump());
  // The page loads nothing and takes no markup from names.
  EXPECT_EQ(once->page.find("http"), std::string::npos);
  Workload named = *load->draw(1);
  named.name = "<script>alert(1)</script>";
  const auto result = simulate(scenario.cluster, named);
  EXPECT_EQ(html_page(once->report, *result, named).find("<script>"), std::string::npos);
  const std::string picture = svg_picture(*result, named);
  EXPECT_TRUE(picture.starts_with("<svg xmlns=")) << picture.substr(0, 80);
  EXPECT_TRUE(picture.ends_with("</svg>\n"));
  EXPECT_NE(picture.find("&lt;script&gt;"), std::string::npos);
  for (const char* wrong : {"<script>", "<figure", "nan", "inf"})
    EXPECT_EQ(picture.find(wrong), std::string::npos) << wrong;
}

TEST(Report, RepliesOfOneTokenHaveNoTimePerToken) {
  const Scenario scenario = paced_scenario();
  const auto load = Load::make({.arrivals = "poisson:1", .prompt = "1000", .output = "1", .requests = 20});
  const auto made = simulate_load(scenario, *load, {.seeds = 2, .want_page = true});
  ASSERT_TRUE(made.has_value()) << made.error().message;
  const auto& result = made->report.json["result"];
  for (const char* figure : {"tpot_mean_ms", "tpot_p99_ms", "itl_mean_ms"}) EXPECT_TRUE(result[figure].is_null());
  EXPECT_GT(result["ttft_mean_ms"].get<double>(), 0);
  EXPECT_NE(made->report.text.find("replies of one token"), std::string::npos) << made->report.text;
  EXPECT_EQ(made->report.text.find("nan"), std::string::npos) << made->report.text;
  EXPECT_EQ(made->page.find("nan"), std::string::npos);
}

TEST(Scenario, AssumptionsSayOfWhichPoolTheyAre) {
  ScenarioSpec spec;
  spec.model = "Llama-3.1-8B";
  spec.hardware = "H100";
  spec.decode_instances = 1;
  const auto scenario = make_scenario(spec);
  ASSERT_TRUE(scenario.has_value()) << scenario.error().message;
  EXPECT_TRUE(scenario->assumptions[0].starts_with("prefill instances: ")) << scenario->assumptions[0];
  EXPECT_TRUE(scenario->assumptions[2].starts_with("decode instances: ")) << scenario->assumptions[2];
}

TEST(Scenario, WrongNumbersAreNamedByTheirOption) {
  ScenarioSpec good;
  good.model = "Llama-3.1-8B";
  good.hardware = "H100";
  good.decode_instances = 1;
  const auto said = [&](auto change) {
    ScenarioSpec spec = good;
    change(spec);
    const auto scenario = make_scenario(spec);
    return scenario ? std::string("none") : scenario.error().message;
  };
  EXPECT_TRUE(said([](ScenarioSpec& s) { s.link_gbs = 0; }) == "none");
  for (const double wrong : {-1.0, std::nan(""), 1e300}) {
    EXPECT_TRUE(said([&](ScenarioSpec& s) { s.link_gbs = wrong; }).starts_with("--link-gbs is "));
    EXPECT_TRUE(said([&](ScenarioSpec& s) { s.link_latency_ms = wrong; }).starts_with("--link-latency-ms is "));
    EXPECT_TRUE(said([&](ScenarioSpec& s) { s.output_overhead_ms = wrong; }).starts_with("--output-overhead-ms is "));
  }
}

TEST(Goodput, SaysWhichNumberRulesAPromiseOut) {
  const Scenario scenario = paced_scenario();
  const auto load = Load::make({.arrivals = "poisson:1", .prompt = "1000", .output = "100", .requests = 100});
  GoodputSpec spec;
  spec.slo.tpot_s = 0.005;
  auto found = find_goodput(scenario, *load, spec);
  ASSERT_FALSE(found.has_value());
  EXPECT_NE(found.error().message.find("below one step"), std::string::npos) << found.error().message;
  EXPECT_NE(found.error().message.find("10.010 ms"), std::string::npos) << found.error().message;
  spec.slo = {.ttft_s = 0.015};
  found = find_goodput(scenario, *load, spec);
  ASSERT_FALSE(found.has_value());
  EXPECT_NE(found.error().message.find("20.000 ms"), std::string::npos) << found.error().message;
  spec.slo = {};
  EXPECT_FALSE(find_goodput(scenario, *load, spec).has_value());
}

}  // namespace
}  // namespace weir::plan::sim
