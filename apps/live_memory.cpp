#include "apps/live_memory.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/memory.h"
#include "base/cpu_info.h"
#include "engine/runner.h"
#include "model/layers/workspace.h"
#include "model/model.h"

namespace weir::apps {
namespace {

constexpr double kTarget = 0.01;
// Of the server whose fixed part is measured: little of all that is counted.
constexpr ServerSetting kSmall = {.cache = false, .chunk = 128, .sequences = 4};

driver::WorkloadSpec at_once(const LiveModel& model, std::uint64_t seed, std::size_t requests, std::int64_t prompt,
                             std::int64_t reply) {
  driver::WorkloadSpec spec = load_of(model, seed);
  spec.requests = requests;
  spec.arrivals = {.kind = traffic::Arrivals::Kind::kAtOnce};
  spec.prompt.median = static_cast<double>(prompt);
  spec.output.median = static_cast<double>(reply);
  return spec;
}

// What fills a server. Requests of one load are alike, so it does not matter which of them the server hears first.
std::vector<driver::WorkloadSpec> filling_loads(const LiveSide& side, std::uint64_t seed) {
  const LiveModel& model = side.model();
  const auto sequences = static_cast<std::size_t>(side.setting().sequences);
  constexpr std::int64_t kReply = 8, kShort = 16, kShortReply = 32;
  const std::int64_t most = std::min(LiveSide::kMaxModelLen, model.context) - kReply;
  // Prompts that fill a pool, in all.
  constexpr std::size_t kPrompts = 64;
  constexpr std::int64_t kPrompt = 250;
  return {at_once(model, seed, 1, std::min<std::int64_t>(side.setting().chunk, most), kReply),
          at_once(model, seed + 1, kPrompts, std::min(kPrompt, most), kReply),
          at_once(model, seed + 2, 2 * sequences, kShort, kShortReply)};
}

double resident(const std::vector<backend::BufferUse>& buffers) {
  double sum = 0;
  for (const backend::BufferUse& b : buffers) sum += static_cast<double>(backend::cpu::resident_bytes(b.bytes, b.used));
  return sum;
}

// All but the fixed part.
void count_bytes(const LiveSide& side, double written_blocks, LiveMemory& out) {
  const load::ModelSpec& spec = side.model().spec;
  const ServerSetting& setting = side.setting();
  const int threads = side.threads() > 0 ? side.threads() : usable_cores();
  const auto widths = model::Workspace::widths(spec);
  const std::int64_t widest = *std::max_element(widths.begin(), widths.end());
  out.step_bytes = resident(model::Model::step_buffers(spec, {setting.chunk}, setting.chunk, setting.sequences)) +
                   static_cast<double>(backend::cpu::linear_scratch_bytes(threads, setting.chunk, widest));
  out.logit_bytes = resident({engine::Runner::logits_buffer(spec.vocab, setting.sequences)});
  const auto block_bytes = static_cast<double>(side.model().block_bytes);
  out.kv_bytes = resident({{static_cast<std::size_t>(block_bytes * side.blocks()),
                            static_cast<std::size_t>(block_bytes * std::ceil(written_blocks))}});
}

}  // namespace

void WrittenBlocks::add(const driver::WorkloadSpec& spec, const plan::sim::SimResult& predicted) {
  most_ = std::max(most_, predicted.instances[0].kv_peak * side_.blocks());
  const auto drawn = driver::Workload::draw(spec);
  const auto groups = static_cast<double>(side_.model().windows.size());
  for (std::size_t i = 0; i < predicted.requests.size(); ++i) {
    const auto& request = drawn->requests()[i];
    const std::int64_t written = request.prompt_tokens() + request.output_tokens - predicted.requests[i].cached_tokens;
    kept_ += static_cast<double>(std::max<std::int64_t>(written, 0) / side_.model().block_tokens) * groups;
  }
}

double WrittenBlocks::blocks() const {
  return side_.setting().cache ? std::min(kept_ + most_, static_cast<double>(side_.blocks())) : most_;
}

Result<LiveMemory> compare_memory(const LiveSide& side, const ChildServer& server, std::uint64_t seed,
                                  WrittenBlocks written) {
  for (const auto& spec : filling_loads(side, seed)) {
    WEIR_TRY(const auto predicted, side.predict(spec, 1));
    written.add(spec, predicted);
    WEIR_TRY(const auto run, run_load(server.base_url(), spec));
    (void)run;
  }
  LiveMemory out;
  out.model = side.model().name;
  out.setting = side.setting();
  out.measured_bytes = static_cast<double>(server.resident_bytes());
  out.fixed_bytes = side.step().resident_bytes;
  count_bytes(side, written.blocks(), out);
  return out;
}

Result<double> measure_fixed_bytes(const LiveModel& model, int threads, std::uint64_t seed) {
  // Steps that take no time: which blocks are written does not depend on it where all requests come at once.
  const plan::CalibratedStep step(plan::StepCoefficients{.rows_s = {.at = {1}, .value = {1e-3}}, .samples_s = {}});
  const LiveSide side(model, step, kSmall, threads);
  WEIR_TRY(const auto server, ChildServer::start(side.arguments()));
  WEIR_TRY(const LiveMemory seen, compare_memory(side, *server, seed, WrittenBlocks(side)));
  WEIR_RETURN_IF_ERROR(server->stop());
  return std::max(0.0, seen.measured_bytes - seen.predicted_bytes());
}

bool report_memory(const std::vector<LiveMemory>& memory, plan::Report& report) {
  double worst = 0;
  report.text +=
      fmt::format("{:<18} {:<5}{:>5}{:>6}{:>10}{:>8}{:>8}{:>8}{:>11}{:>12}{:>8}\n", "resident set, MB", "cache", "seqs",
                  "chunk", "fixed", "steps", "logits", "KV", "predicted", "measured", "err %");
  for (const LiveMemory& m : memory) {
    worst = std::max(worst, std::abs(m.error()));
    report.text += fmt::format(
        "{:<18.18} {:<5}{:>5}{:>6}{:>10.2f}{:>8.2f}{:>8.2f}{:>8.2f}{:>11.2f}{:>12.2f}{:>+8.2f}\n", m.model,
        m.setting.cache ? "on" : "off", m.setting.sequences, m.setting.chunk, m.fixed_bytes / 1e6, m.step_bytes / 1e6,
        m.logit_bytes / 1e6, m.kv_bytes / 1e6, m.predicted_bytes() / 1e6, m.measured_bytes / 1e6, 100 * m.error());
    report.json["memory"].push_back({{"model", m.model},
                                     {"cache", m.setting.cache},
                                     {"sequences", m.setting.sequences},
                                     {"chunk", m.setting.chunk},
                                     {"fixed_bytes", m.fixed_bytes},
                                     {"step_bytes", m.step_bytes},
                                     {"logit_bytes", m.logit_bytes},
                                     {"kv_bytes", m.kv_bytes},
                                     {"predicted_bytes", m.predicted_bytes()},
                                     {"measured_bytes", m.measured_bytes},
                                     {"error", m.error()}});
  }
  const bool met = worst <= kTarget;
  report.json["memory_worst_error"] = worst;
  report.json["memory_met"] = met;
  report.text +=
      fmt::format("worst {:.2f} %, target {:.0f} %: {}\n", 100 * worst, 100 * kTarget, met ? "met" : "missed");
  return met;
}

Result<plan::Report> validate_memory(const ValidateMemoryOptions& options) {
  std::vector<LiveMemory> memory;
  for (const std::string& path : options.models) {
    WEIR_TRY(const LiveModel model, read_live_model(path, kLiveBlockTokens));
    plan::CalibratedStep step(plan::StepCoefficients{.rows_s = {.at = {1}, .value = {1e-3}}, .samples_s = {}});
    WEIR_TRY(step.resident_bytes, measure_fixed_bytes(model, options.threads, options.seed));
    for (const int sequences : {1, 8, 32}) {
      for (const int chunk : {64, 512, 2048}) {
        for (const bool cache : {true, false}) {
          const LiveSide side(model, step, {cache, chunk, sequences}, options.threads);
          WEIR_TRY(const auto server, ChildServer::start(side.arguments()));
          WEIR_TRY(auto one, compare_memory(side, *server, options.seed, WrittenBlocks(side)));
          WEIR_RETURN_IF_ERROR(server->stop());
          fmt::print(stderr, "{} cache {} sequences {} chunk {}: {:.2f} MB, {:+.2f} %\n", one.model,
                     cache ? "on" : "off", sequences, chunk, one.measured_bytes / 1e6, 100 * one.error());
          memory.push_back(std::move(one));
        }
      }
    }
  }
  plan::Report report;
  report.json["met"] = report_memory(memory, report);
  return report;
}

}  // namespace weir::apps
