#include "plan/silicon/validate_published.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "plan/data.h"
#include "plan/kv_transfer.h"
#include "plan/silicon/silicon_model.h"

namespace weir::plan {
namespace {

using Json = nlohmann::ordered_json;

void anchors(Report& report) {
  auto refs = read_silicon(data_file("silicon_refs.csv"), "silicon_refs.csv");
  if (!refs) return;
  std::set<std::string> held;
  for (const SiliconRow* row : refs->used()) held.insert(row->configuration());
  report.text += fmt::format("{:<18} {:<9} {:<7} {:<13} {:<34} {:>7} {:>9} {:>6} {:>10} {:>6}\n", "model", "GPU",
                             "backend", "kind", "layout", "requests", "TPOT ms", "err %", "TTFT ms", "err %");
  Json rows = Json::array();
  std::array<double, 2> within{};
  int count = 0, both = 0;
  std::map<std::pair<RowKind, Latency>, SiliconModel> fits;  // without the anchors' configurations
  const auto fit_for = [&](const SiliconRow& row, Latency latency) -> const SiliconModel& {
    const RowKind kind = fit_kind(row, latency);
    const auto found = fits.find({kind, latency});
    if (found != fits.end()) return found->second;
    std::vector<const SiliconRow*> train;
    for (const SiliconRow* known : shared_silicon().used()) {
      const bool learns = known->kind() == kind && fit_kind(*known, latency) == kind;
      if (learns && !held.contains(known->configuration())) train.push_back(known);
    }
    return fits.emplace(std::pair{kind, latency}, SiliconModel::fit(train, latency)).first->second;
  };
  for (const RowKind kind : {RowKind::kDense, RowKind::kMixture, RowKind::kDisaggregated}) {
    std::vector<const SiliconRow*> test;
    for (const SiliconRow* row : refs->used()) {
      if (row->kind() == kind) test.push_back(row);
    }
    const double tpot_target = kind == RowKind::kDense ? 7 : 18, ttft_target = 25;
    for (const SiliconRow* row : test) {
      const double tpot_error = 100 * (std::exp(fit_for(*row, Latency::kTpot).log_ms(*row)) / row->tpot_ms - 1);
      const double ttft_error = 100 * (std::exp(fit_for(*row, Latency::kTtft).log_ms(*row)) / row->ttft_ms - 1);
      const bool tpot_ok = std::abs(tpot_error) <= tpot_target, ttft_ok = std::abs(ttft_error) <= ttft_target;
      within[0] += tpot_ok;
      within[1] += ttft_ok;
      both += tpot_ok && ttft_ok;
      ++count;
      report.text +=
          fmt::format("{:<18} {:<9} {:<7} {:<13} {:<34} {:>7g} {:>9.2f} {:>+6.1f} {:>10.1f} {:>+6.1f}\n", row->model,
                      row->system, row->backend, kRowKindNames[static_cast<std::size_t>(kind)], row->layout_name(),
                      row->concurrency, row->tpot_ms, tpot_error, row->ttft_ms, ttft_error);
      rows.push_back({{"model", row->model},
                      {"system", row->system},
                      {"backend", row->backend},
                      {"layout", row->layout_name()},
                      {"concurrency", row->concurrency},
                      {"tpot_ms", row->tpot_ms},
                      {"tpot_error_percent", tpot_error},
                      {"ttft_ms", row->ttft_ms},
                      {"ttft_error_percent", ttft_error}});
    }
  }
  report.text += fmt::format(
      "{} anchors: TPOT within 7 % (dense) or 18 %: {:g}; TTFT within 25 %: {:g}; both: {} (goal: 12 or more)\n\n",
      count, within[0], within[1], both);
  report.json["anchors"] = {{"rows", std::move(rows)},
                            {"count", count},
                            {"tpot_within", within[0]},
                            {"ttft_within", within[1]},
                            {"both_within", both}};
}

// Attention by sequences and experts spread over many nodes, as DeepSeek and SGLang published it for DeepSeek-V3. Two
// halves of a batch take turns: of exchange and all else the longer hides the other.
constexpr double kNode = 8;  // devices
// DeepEP's table for H800 with 400 Gbit/s (its documentation of V1): normal kernels, EP32, 58 and 57 GB/s there and
// back; low-latency kernels, EP128, 39 GB/s both ways.
constexpr double kPrefillExchangeGbs = 57.5, kDecodeExchangeGbs = 39;
// Normal kernels send a token to each of at most 4 nodes once (node-limited routing), low-latency ones to each of its
// experts; FP8 there, BF16 back.
constexpr double kNodesPerToken = 4, kBytesThereAndBack = 3;
// DeepSeek's day (open-infra-index, day 6, 2025-02-28): 608 G tokens in, of which 342 G from the cache, 168 G out; mean
// KV of an output token 4,989. A prompt of n tokens and its 168 / 608 n of output have a mean KV of n (1 + 84 / 608).
constexpr double kCached = 342.0 / 608, kDayContext = 4989, kDayPrompt = kDayContext / (1 + 84.0 / 608);

struct WideRun {
  const char* name;
  const char* hardware;
  double prefill_devices, decode_devices;
  double prompt, cached;      // tokens; share from the cache
  double prefill_rows;        // of one device in a pass
  double sequences, context;  // of one device that decodes
  double input, output;       // measured tokens per second and node, input with cached ones
  std::vector<std::string> assumptions;
};

const std::vector<WideRun>& wide_runs() {
  static const std::vector<WideRun> runs = {
      {"DeepSeek production day",
       "H800",
       32,
       144,
       kDayPrompt,
       kCached,
       16384,
       14.8e3 / 21 / kNode,
       kDayContext,
       73.7e3,
       14.8e3,
       {"prefill EP32 over 4 nodes, decoding EP144 over 18 nodes (published)",
        fmt::format("prompts of {:.0f} tokens, {:.1f} % from the cache (published totals and mean context)", kDayPrompt,
                    100 * kCached),
        "16,384 rows per device and pass (their published prefill profile)",
        fmt::format("{:.0f} sequences per device, from 14.8 k tokens/s per node at 20 to 22 tokens/s per user; context "
                    "4,989 (published); no drafts",
                    14.8e3 / 21 / kNode)}},
      {"DeepSeek profile",
       "H800",
       32,
       128,
       4096,
       0,
       16384,
       128,
       4096,
       7839 * kNode,
       2324 * kNode,
       {"prefill EP32, prompts of 4,096, 16,384 rows per device; decoding EP128, 128 sequences per device, context "
        "4,096 "
        "(deepseek-ai/profile-data; tokens/s as InferSim reads them from it)"}},
  };
  return runs;
}

// Two halves of a batch take turns. `exchange` comes from rates over whole exchanges: their latency is in it, and is
// hidden with them.
double pass_ms_of(const StepTerms& terms, const std::vector<double>& weights, double exchange) {
  double rest = 0;
  for (int term = 0; term < kTerms; ++term) {
    const auto i = static_cast<std::size_t>(term);
    const bool exchanges = term_kind(term) == 3 || term == kTermExchange || term == kTermExchangeDoubling;
    if (!exchanges) rest += weights[i] * terms[i];
  }
  return std::max(exchange, rest);
}

double exchange_ms(const StepFacts& facts, double rows, double copies, double gbs) {
  return 1e3 * facts.sparse_layers * rows * facts.hidden * copies * kBytesThereAndBack / (gbs * 1e9);
}

void wide_run(const WideRun& run, const StepFacts& facts, Report& report) {
  auto hardware = find_hardware(run.hardware);
  if (!hardware) return;
  const StepBits bits{8, 8, 16};
  const auto weights = shared_model(RowKind::kMixture, Latency::kTpot)
                           .coefficients(tpot_groups("deepseek-v3", "h800", "sglang", "", bits));
  ParallelLayout prefill, decode;
  prefill.dp = prefill.ep = static_cast<int>(run.prefill_devices);
  decode.dp = decode.ep = static_cast<int>(run.decode_devices);
  StepLoad prompts;
  prompts.prompt_tokens = run.prefill_rows * run.prefill_devices;
  prompts.prompts = prompts.prompt_tokens / (run.prompt * (1 - run.cached));
  prompts.prompt_pairs = prompts.prompt_tokens * run.prompt * (1 + run.cached) / 2;  // rows come after what is cached
  const double pass_ms = pass_ms_of(step_terms(facts, *hardware, prefill, bits, prompts), weights,
                                    exchange_ms(facts, run.prefill_rows, kNodesPerToken, kPrefillExchangeGbs));
  const double input = 1e3 * run.prefill_rows * kNode / pass_ms / (1 - run.cached);
  StepLoad running;
  running.sequences = run.sequences * run.decode_devices;
  running.context = run.context;
  const double step_ms = pass_ms_of(step_terms(facts, *hardware, decode, bits, running), weights,
                                    exchange_ms(facts, run.sequences, facts.experts_used, kDecodeExchangeGbs));
  const double output = 1e3 * run.sequences * kNode / step_ms;
  const double input_error = 100 * (input / run.input - 1), output_error = 100 * (output / run.output - 1);
  report.text += fmt::format(
      "{}, {} node: input {:.1f} k tokens/s (measured {:.1f}, {:+.0f} %: {}), output {:.1f} k (measured {:.1f}, "
      "{:+.0f} "
      "%: {}); goal 20 %\n",
      run.name, run.hardware, input / 1e3, run.input / 1e3, input_error, std::abs(input_error) <= 20 ? "met" : "missed",
      output / 1e3, run.output / 1e3, output_error, std::abs(output_error) <= 20 ? "met" : "missed");
  for (const auto& line : run.assumptions) report.text += "  assumed: " + line + "\n";
  report.json["wide_expert_parallelism"].push_back({{"name", run.name},
                                                    {"hardware", run.hardware},
                                                    {"input_per_node", input},
                                                    {"input_error_percent", input_error},
                                                    {"output_per_node", output},
                                                    {"output_error_percent", output_error},
                                                    {"assumptions", run.assumptions}});
}

void production(Report& report) {
  const auto facts = facts_for("DeepSeek-V3");
  if (!facts) return;
  report.json["wide_expert_parallelism"] = Json::array();
  for (const WideRun& run : wide_runs()) wide_run(run, *facts, report);
  report.text +=
      "  assumed for all: FP8 weights, BF16 KV, the coefficients of mixtures on SGLang with no term of a system of its "
      "own; experts in perfect balance; exchange by DeepEP's measured rates, latency in them: prefill to 4 nodes at "
      "57.5 "
      "GB/s, decoding to 8 experts at 39 GB/s; of exchange and all else the longer hides the other\n";
}

// Mooncake (FAST'25): from which bandwidth on fetching the KV of 8,192 tokens is faster than computing them, for Llama
// 3 70B on eight devices.
void crossovers(Report& report) {
  const auto card = read_model_card("Llama-3-70B");
  if (!card) return;
  constexpr double kGoal = 15;
  report.text += '\n';
  report.json["mooncake"] = Json::array();
  for (const auto& [name, published] : {std::pair{"A800", 6.0}, std::pair{"H800", 19.0}}) {
    const auto hardware = find_hardware(name);
    if (!hardware) continue;
    const RecomputeModel model{*card, *hardware, {.layout = {.tp = 8}, .types = card->types}};
    const double counted = reuse_bandwidth_gbs(model, 8192);
    const double formula =
        mooncake_bandwidth_gbs(card->spec.hidden, card->spec.heads / std::max(1, card->spec.kv_heads), 8192,
                               8 * hardware->bf16_tflops * 1e12, 2);
    const double error = 100 * (counted / published - 1), formula_error = 100 * (formula / published - 1);
    report.text += fmt::format(
        "Mooncake, 8 x {}: reuse wins from {:.2f} GB/s (published {:g}, {:+.1f} %: {}), by their formula {:.2f} "
        "({:+.1f} %); goal {:g} %\n",
        name, counted, published, error, std::abs(error) <= kGoal ? "met" : "missed", formula, formula_error, kGoal);
    report.json["mooncake"].push_back({{"hardware", name},
                                       {"published_gbs", published},
                                       {"gbs", counted},
                                       {"error_percent", error},
                                       {"by_formula_gbs", formula},
                                       {"formula_error_percent", formula_error}});
  }
}

}  // namespace

Result<Report> validate_published() {
  Report report;
  report.json = Json::object();
  anchors(report);
  production(report);
  crossovers(report);
  return report;
}

}  // namespace weir::plan
