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

constexpr int kBlockTokens = 16;
constexpr int kMaxSequences = 32;
constexpr std::int64_t kMaxModelLen = 2048;
constexpr std::int64_t kPoolBytes = 192 << 20;  // holds more than kMaxSequences of these requests
constexpr int kPrefixGroups = 4;
constexpr std::int64_t kPrefixTokens = 96;
constexpr const char* kPromptLengths = "lognormal:64:0.6:8:400";
constexpr const char* kOutputLengths = "uniform:8:40";
constexpr std::size_t kFewestRequests = 16, kMostRequests = 5000;
constexpr std::size_t kCapacityRequests = 160;

// One server each, with three arrival processes; the loads, in parts of the capacity, are spread so that each process
// and setting meets low and high ones.
struct Setting {
  bool cache;
  int chunk;
  double load[3];  // of poisson, gamma and burst
};
constexpr Setting kSettings[] = {{true, 512, {0.8, 0.5, 1.2}},
                                 {false, 128, {0.6, 0.9, 0.4}},
                                 {true, 128, {1.0, 0.7, 0.6}},
                                 {false, 512, {1.2, 0.4, 0.8}}};
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

// The median of the last three: one alone may have met something that is over.
double recent(const std::vector<double>& references) {
  constexpr std::size_t kLast = 3;
  std::vector<double> last(references.end() - static_cast<std::ptrdiff_t>(std::min(kLast, references.size())),
                           references.end());
  std::sort(last.begin(), last.end());
  return driver::quantile(last, 0.5);
}

// A model under one setting: its server, and the simulator's picture of it.
class Side {
 public:
  Side(const LiveModel& model, const plan::CalibratedStep& step, const Setting& setting, int threads)
      : model_(model), step_(step), setting_(setting), threads_(threads) {
    blocks_ = static_cast<std::uint32_t>(std::max<std::int64_t>(kPoolBytes / model.block_bytes, 1));
  }

  std::vector<std::string> arguments() const {
    std::vector<std::string> out = {model_.path};
    const auto add = [&out](const char* name, auto value) {
      out.emplace_back(name);
      out.push_back(fmt::format("{}", value));
    };
    add("--threads", threads_);
    add("--block-size", kBlockTokens);
    add("--num-kv-blocks", blocks_);
    add("--max-num-seqs", kMaxSequences);
    add("--max-num-batched-tokens", setting_.chunk);
    add("--max-model-len", kMaxModelLen);
    add("--log-level", "warning");
    if (!setting_.cache) out.emplace_back("--no-prefix-caching");
    return out;
  }

  driver::WorkloadSpec load(std::size_t requests, const std::string& arrivals, std::uint64_t seed) const {
    driver::WorkloadSpec spec = load_of(model_, seed);
    spec.requests = requests;
    spec.arrivals = *traffic::parse_arrivals(arrivals);
    spec.prompt = *traffic::parse_lengths("input-len", kPromptLengths);
    spec.output = *traffic::parse_lengths("output-len", kOutputLengths);
    spec.prefix_groups = kPrefixGroups;  // cache off: the same prompts, computed
    spec.prefix_tokens = kPrefixTokens;
    return spec;
  }

  Result<plan::sim::SimResult> predict(const driver::WorkloadSpec& spec, double slowdown) const {
    WEIR_TRY(const auto drawn, driver::Workload::draw(spec));
    plan::sim::Workload workload;
    workload.id_tokens = kPrefixTokens;
    for (int group = 0; group < kPrefixGroups; ++group) workload.ids.push_back(static_cast<std::uint64_t>(group));
    for (const auto& request : drawn.requests()) {
      plan::sim::Request r;
      r.arrival_s = request.at_s;
      r.prompt_tokens = request.prompt_tokens();
      r.output_tokens = request.output_tokens;
      r.first_id = static_cast<std::uint32_t>(std::max(request.group, 0));
      r.id_count = request.group >= 0 ? 1 : 0;
      workload.requests.push_back(r);
    }
    plan::CalibratedStep step = step_;
    step.set_slowdown(slowdown);
    plan::sim::Cluster cluster;
    auto& instance = cluster.instance;
    instance.scheduler.max_num_seqs = kMaxSequences;
    instance.scheduler.max_num_batched_tokens = setting_.chunk;
    instance.scheduler.max_model_len = kMaxModelLen;
    instance.scheduler.enable_prefix_caching = setting_.cache;
    instance.block_tokens = kBlockTokens;
    instance.num_blocks = blocks_;
    instance.windows = model_.windows;
    instance.model = &step;
    instance.overheads = {.request_s = step.overheads.request_s * slowdown,
                          .prompt_token_s = step.overheads.prompt_token_s * slowdown,
                          .output_s = step.overheads.output_s * slowdown};
    return plan::sim::simulate(cluster, workload);
  }

  // Requests a second that the server can take, as the simulator sees it: many at once.
  Result<double> capacity() const {
    const auto spec = load(kCapacityRequests, "at-once", 0x636170);
    WEIR_TRY(const auto result, predict(spec, 1));
    double end_s = 0;
    for (const auto& r : result.requests) end_s = std::max(end_s, r.last_s);
    return static_cast<double>(result.requests.size()) / end_s;
  }

  std::uint32_t blocks() const { return blocks_; }
  const Setting& setting() const { return setting_; }
  const LiveModel& model() const { return model_; }
  const plan::CalibratedStep& step() const { return step_; }

 private:
  const LiveModel& model_;
  const plan::CalibratedStep& step_;
  const Setting& setting_;
  int threads_;
  std::uint32_t blocks_ = 0;
};

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
  constexpr double kPerRun_s = 2.5, kOverhang = 1.2, kPerServer_s = 3, kMemory_s = 8;
  const double run_s = options.seconds * kOverhang + kPerRun_s;
  const double setting_s = kPerServer_s + run_s * static_cast<double>(options.runs) * std::size(kArrivals);
  double all_s = 0;
  for (std::size_t i = 0; i < options.models.size(); ++i) {
    if (i >= options.step_models.size()) all_s += options.calibration_s + kMemory_s;
    all_s += setting_s * static_cast<double>(settings_tried(options));
  }
  return all_s;
}

// Blocks of the pool that the runs have written: with a cache every freed block stays, so new ones are taken until the
// pool is used up; without, the block freed last is taken first, and it is the most that were in use at once.
class TouchedBlocks {
 public:
  explicit TouchedBlocks(const Side& side) : side_(side) {}

  void add(const driver::WorkloadSpec& spec, const plan::sim::SimResult& predicted) {
    const auto pool = static_cast<double>(side_.blocks());
    most_ = std::max(most_, predicted.instances[0].kv_peak * pool);
    const auto drawn = driver::Workload::draw(spec);
    for (std::size_t i = 0; i < predicted.requests.size(); ++i) {
      const auto& request = drawn->requests()[i];
      const std::int64_t written =
          request.prompt_tokens() + request.output_tokens - predicted.requests[i].cached_tokens;
      written_ +=
          std::ceil(static_cast<double>(written) / kBlockTokens) * static_cast<double>(side_.model().windows.size());
    }
  }
  double bytes() const {
    const double blocks = side_.setting().cache ? std::min(written_, static_cast<double>(side_.blocks())) : most_;
    return blocks * static_cast<double>(side_.model().block_bytes);
  }

 private:
  const Side& side_;
  double most_ = 0, written_ = 0;
};

Status run_setting(const Side& side, const ValidateLiveOptions& options, std::vector<LiveScenario>& scenarios,
                   std::vector<LiveMemory>& memory, Progress& progress) {
  WEIR_TRY(const double capacity, side.capacity());
  WEIR_TRY(const auto server, ChildServer::start(side.arguments()));
  const std::string url = server->base_url();
  WEIR_TRY(const double first, reference_s(url, side.model(), options.seed + 77));  // touches the weights
  (void)first;
  std::vector<double> references;
  std::vector<LiveScenario> mine(std::size(kArrivals));
  TouchedBlocks touched(side);
  for (int run = 0; run < options.runs; ++run) {
    for (std::size_t process = 0; process < std::size(kArrivals); ++process) {
      LiveScenario& s = mine[process];
      s.model = side.model().name;
      s.arrivals = kArrivals[process];
      s.cache = side.setting().cache;
      s.chunk = side.setting().chunk;
      s.load = side.setting().load[process];
      s.rate = s.load * capacity;
      s.requests = std::clamp(static_cast<std::size_t>(s.rate * options.seconds), kFewestRequests, kMostRequests);
      driver::WorkloadSpec spec = side.load(s.requests, arrivals_text(process, s.rate), options.seed + process);
      spec.text_seed = static_cast<std::uint64_t>(run) + 1;  // else the run before has cached its prompts
      const std::uint64_t reference_seed = options.seed + 1000 + static_cast<std::uint64_t>(run) * 10 + process;
      WEIR_TRY(const double now, reference_s(url, side.model(), reference_seed));
      references.push_back(now);
      const double slowdown = side.step().reference_s > 0 ? recent(references) / side.step().reference_s : 1;
      WEIR_TRY(const auto sim, side.predict(spec, slowdown));
      WEIR_TRY(const auto measured, run_load(url, spec));
      std::vector<double> lag;
      for (const auto& r : measured.records) lag.push_back(r.lag_s());
      s.measured.push_back(figures_of(measured));
      s.predicted.push_back(figures_of(sim));
      s.slowdown.push_back(slowdown);
      s.lag_p99_s.push_back(p99(std::move(lag)));
      touched.add(spec, sim);
      progress.ended(s, options.runs);
    }
  }
  LiveMemory m{side.model().name, side.setting().cache, side.setting().chunk, 0, 0};
  m.measured_bytes = static_cast<double>(server->resident_bytes());
  m.predicted_bytes =
      side.step().resident_bytes + side.step().resident_row_bytes * side.setting().chunk + touched.bytes();
  memory.push_back(m);
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
    WEIR_TRY(const LiveModel model, read_live_model(options.models[i], kBlockTokens));
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
      const Side side(model, steps.back(), kSettings[k], options.threads);
      WEIR_RETURN_IF_ERROR(run_setting(side, options, scenarios, memory, progress));
    }
  }
  return live_report(scenarios, memory, steps);
}

}  // namespace weir::apps
