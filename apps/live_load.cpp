#include "apps/live_load.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>

#include "apps/child_server.h"
#include "apps/live_memory.h"
#include "base/cpu_info.h"
#include "base/printable.h"
#include "engine/kv_sizing.h"
#include "load/model_files.h"
#include "plan/step_model.h"

namespace weir::apps {
namespace {

// A plan that follows the tokens of the step before this closely was not waited for.
constexpr double kBusyGap_s = 2e-3;
constexpr int kReferenceClients = 4, kReferenceRequests = 12;
constexpr int kReferencePrompt = 128, kReferenceOutput = 16;
constexpr std::size_t kMostRequests = 4000;
constexpr int kRounds = 2;  // every load comes so often, in turns, so that a drift of the machine meets all alike

struct Load {
  int clients;
  const char* prompt;
  const char* output;
  double share;  // of the time
};
// Clients decide how many rows decode, prompts how long the others are; together they meet the shapes of serving.
constexpr Load kLoads[] = {
    {1, "uniform:1:512", "uniform:2:8", 2},           {2, "lognormal:48:1.2:2:900", "uniform:4:32", 1},
    {3, "lognormal:48:1.2:2:900", "uniform:4:32", 1}, {4, "lognormal:64:1:4:900", "uniform:4:32", 1},
    {6, "lognormal:64:1:4:900", "uniform:4:32", 1},   {8, "lognormal:64:1:4:900", "uniform:4:32", 1},
    {12, "lognormal:64:1:4:600", "uniform:4:32", 1},  {3, "uniform:500:1200", "uniform:2:16", 1},
    {16, "lognormal:64:1:4:600", "uniform:4:24", 1},  {24, "lognormal:64:1:4:400", "uniform:4:24", 1},
    {32, "lognormal:48:1:4:400", "uniform:4:24", 1}};

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// A way in: from sending to the first step, and the length of the prompt.
struct WayIn {
  double prompt_tokens, seconds;
};

// The requests of a run with one client, one after the other, beside the steps of their sequences.
void add_overheads(const driver::RunResult& run, const std::vector<LoggedStep>& steps, std::vector<WayIn>& in,
                   std::vector<double>& out) {
  std::vector<std::uint64_t> order;                                                // sequences of the run
  std::map<std::uint64_t, std::pair<const LoggedStep*, const LoggedStep*>> first;  // first step, first that samples
  for (const LoggedStep& step : steps) {
    if (step.planned_s < run.start_s || step.planned_s > run.end_s) continue;
    for (const auto& range : step.ranges) {
      auto [it, fresh] = first.try_emplace(value(range.id), &step, nullptr);
      if (fresh) order.push_back(value(range.id));
      if (range.samples && it->second.second == nullptr) it->second.second = &step;
    }
  }
  if (order.size() != run.records.size()) return;  // somebody else uses the server
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto& [begin, sampled] = first.at(order[i]);
    const driver::RequestRecord& record = run.records[i];
    if (sampled == nullptr || record.first_token_s <= 0) continue;
    in.push_back({static_cast<double>(record.asked_prompt_tokens), begin->planned_s - record.sent_s});
    out.push_back(record.first_token_s - sampled->produced_s);
  }
}

// The slope and start of the line with the least sum of absolute errors among those through two of the points; robust
// against the few that were interrupted.
plan::RequestOverheads fit_overheads(const std::vector<WayIn>& in, const std::vector<double>& out, double rest_s) {
  plan::RequestOverheads fitted;
  std::vector<double> slopes, starts;
  for (std::size_t i = 0; i < in.size(); ++i) {
    for (std::size_t j = i + 1; j < in.size() && j < i + 100; ++j) {
      const double dx = in[j].prompt_tokens - in[i].prompt_tokens;
      if (std::abs(dx) >= 32) slopes.push_back((in[j].seconds - in[i].seconds) / dx);
    }
  }
  fitted.prompt_token_s = std::max(0.0, median(slopes));
  for (const WayIn& way : in) starts.push_back(way.seconds - fitted.prompt_token_s * way.prompt_tokens);
  fitted.request_s = std::max(0.0, median(starts));
  // A step of the model ends when the next is planned, and its tokens leave a little earlier.
  fitted.output_s = std::max(0.0, median(out) - rest_s);
  return fitted;
}

// From a step's tokens to the next plan, where the engine did not wait.
double usual_rest(const std::vector<LoggedStep>& steps) {
  std::vector<double> rests;
  for (std::size_t i = 0; i + 1 < steps.size(); ++i) {
    const double rest = steps[i + 1].planned_s - steps[i].produced_s;
    if (rest < kBusyGap_s) rests.push_back(rest);
  }
  return median(std::move(rests));
}

std::uint64_t seed_of(std::uint64_t seed, int round, std::size_t load) {
  return seed + 1000 * static_cast<std::uint64_t>(round) + load;
}

}  // namespace

Result<LiveModel> read_live_model(const std::string& path, int block_tokens) {
  WEIR_TRY(auto files, load::open_model(path));
  LiveModel out;
  out.path = path;
  out.name = files.spec.name.empty() ? files.spec.family : printable(files.spec.name);
  out.vocab = static_cast<TokenId>(files.spec.vocab);
  out.context = files.spec.context_length;
  out.block_tokens = block_tokens;
  WEIR_TRY(const auto dtype, engine::choose_kv_dtype("auto", files.spec.main_dtype));
  const kv::KvLayout layout = engine::layout_for(files.spec, dtype, block_tokens);
  for (const kv::KvGroup& group : layout.groups) out.windows.push_back(group.window);
  out.block_bytes = layout.block_bytes;
  out.spec = std::move(files.spec);
  return out;
}

driver::WorkloadSpec load_of(const LiveModel& model, std::uint64_t seed) {
  driver::WorkloadSpec spec;
  spec.seed = seed;
  // Special tokens stand at either end of vocabularies.
  spec.lowest_token = model.vocab / 8;
  spec.token_count = std::max<TokenId>(model.vocab / 2, 1);
  return spec;
}

Result<driver::RunResult> run_load(const std::string& base_url, driver::WorkloadSpec spec, double limit_s) {
  WEIR_TRY(const auto workload, driver::Workload::draw(std::move(spec)));
  driver::DriverOptions options;
  options.base_url = base_url;
  options.limit_s = limit_s;
  WEIR_TRY(auto run, driver::run_workload(workload, options));
  for (const auto& record : run.records) {
    if (!record.ok()) return fail(ErrorCode::kInternal, "a request failed: {}", printable(record.error));
  }
  return run;
}

Result<double> reference_s(const std::string& base_url, const LiveModel& model, std::uint64_t seed) {
  driver::WorkloadSpec spec = load_of(model, seed);
  spec.requests = kReferenceRequests;
  spec.arrivals = {.kind = traffic::Arrivals::Kind::kClosed, .concurrency = kReferenceClients};
  spec.prompt.median = kReferencePrompt;
  spec.output.median = kReferenceOutput;
  WEIR_TRY(const auto run, run_load(base_url, std::move(spec)));
  return run.end_s - run.start_s;
}

std::vector<plan::StepSample> step_samples(const std::vector<LoggedStep>& steps) {
  const double rest_s = usual_rest(steps);
  std::vector<plan::StepSample> samples;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const LoggedStep& step = steps[i];
    plan::StepSample sample;
    for (const auto& range : step.ranges) sample.shape.add(range.begin, range.end, range.samples);
    const double next = i + 1 < steps.size() ? steps[i + 1].planned_s : std::numeric_limits<double>::infinity();
    const double end = next - step.produced_s < kBusyGap_s ? next : step.produced_s + rest_s;
    sample.seconds = end - step.planned_s;
    if (sample.seconds > 0 && sample.shape.tokens > 0) samples.push_back(sample);
  }
  return samples;
}

namespace {

std::vector<std::string> calibration_server(const CalibrateOptions& options, const std::string& log) {
  return {options.model,
          "--step-log",
          log,
          "--log-level",
          "warning",
          "--threads",
          std::to_string(options.threads),
          "--max-num-batched-tokens",
          std::to_string(options.max_rows),
          "--no-prefix-caching"};
}

struct Measured {
  std::vector<LoggedStep> steps;
  std::vector<driver::RunResult> single;  // runs with one client
  double reference_s = 0;
};

Result<Measured> measure(const CalibrateOptions& options, const LiveModel& model) {
  const TemporaryFile log("steps.jsonl");
  WEIR_TRY(const auto server, ChildServer::start(calibration_server(options, log.path())));
  const std::string url = server->base_url();
  WEIR_TRY(const double first, reference_s(url, model, seed_of(options.seed, 99, 0)));  // touches the weights
  (void)first;
  Measured out;
  std::vector<double> references;
  double shares = 0;
  for (const Load& load : kLoads) shares += load.share;
  for (int round = 0; round < kRounds; ++round) {
    for (std::size_t i = 0; i < std::size(kLoads); ++i) {
      const Load& load = kLoads[i];
      driver::WorkloadSpec spec = load_of(model, seed_of(options.seed, round, i));
      spec.requests = kMostRequests;
      spec.arrivals = {.kind = traffic::Arrivals::Kind::kClosed, .concurrency = load.clients};
      WEIR_TRY(spec.prompt, traffic::parse_lengths("input-len", load.prompt));
      WEIR_TRY(spec.output, traffic::parse_lengths("output-len", load.output));
      const std::int64_t longest = std::max<std::int64_t>(model.context - 128, 1);
      spec.prompt.most = std::min(spec.prompt.most, longest);
      spec.prompt.least = std::min(spec.prompt.least, longest);
      WEIR_TRY(auto run, run_load(url, std::move(spec), options.seconds * load.share / shares / kRounds));
      if (load.clients == 1) out.single.push_back(std::move(run));
    }
    for (const std::size_t repeat : {997, 998}) {
      WEIR_TRY(const double now, reference_s(url, model, seed_of(options.seed, round, repeat)));
      references.push_back(now);
    }
  }
  out.reference_s = median(std::move(references));
  WEIR_RETURN_IF_ERROR(server->stop());
  WEIR_TRY(out.steps, read_step_log(log.path()));
  if (!options.keep_log.empty()) {
    std::error_code error;
    std::filesystem::copy_file(log.path(), options.keep_log, std::filesystem::copy_options::overwrite_existing, error);
    if (error)
      return fail_at("step-log", ErrorCode::kInvalidArgument, "--step-log {}: {}", printable(options.keep_log),
                     error.message());
  }
  return out;
}

}  // namespace

Result<plan::CalibratedStep> calibrate(const CalibrateOptions& options) {
  WEIR_TRY(const LiveModel model, read_live_model(options.model, kLiveBlockTokens));
  WEIR_TRY(const Measured measured, measure(options, model));
  WEIR_TRY(plan::CalibratedStep fitted, plan::fit_steps(step_samples(measured.steps)));
  std::vector<WayIn> in;
  std::vector<double> out;
  for (const auto& run : measured.single) add_overheads(run, measured.steps, in, out);
  fitted.overheads = fit_overheads(in, out, usual_rest(measured.steps));
  fitted.model = model.name;
  fitted.machine =
      fmt::format("{}, {} threads", cpu_model_name(), options.threads > 0 ? options.threads : usable_cores());
  fitted.reference_s = measured.reference_s;
  WEIR_TRY(fitted.resident_bytes, measure_fixed_bytes(model, options.threads, options.seed));
  return fitted;
}

}  // namespace weir::apps
