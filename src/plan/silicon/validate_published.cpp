#include "plan/silicon/validate_published.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "plan/data.h"
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
  for (const RowKind kind : {RowKind::kDense, RowKind::kMixture, RowKind::kDisaggregated}) {
    std::vector<const SiliconRow*> train, test;
    for (const SiliconRow* row : shared_silicon().used()) {
      if (row->kind() == kind && !held.contains(row->configuration())) train.push_back(row);
    }
    for (const SiliconRow* row : refs->used()) {
      if (row->kind() == kind) test.push_back(row);
    }
    if (test.empty() || train.empty()) continue;
    const auto tpot = SiliconModel::fit(train, Latency::kTpot), ttft = SiliconModel::fit(train, Latency::kTtft);
    const double tpot_target = kind == RowKind::kDense ? 7 : 18, ttft_target = 25;
    for (const SiliconRow* row : test) {
      const double tpot_error = 100 * (std::exp(tpot.log_ms(*row)) / row->tpot_ms - 1);
      const double ttft_error = 100 * (std::exp(ttft.log_ms(*row)) / row->ttft_ms - 1);
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

// DeepSeek's day in production (open-infra-index, "One More Thing": 2025-02-28).
constexpr double kInputPerNode = 73.7e3, kCached = 0.563, kOutputPerNode = 14.8e3, kPerUser = 21, kContext = 4989;
constexpr double kNode = 8;

// DeepSeek-V3 sends a token to 4 nodes at most (its node-limited routing); FP8 there, BF16 back, at 80 % of the
// network.
constexpr double kNodesPerToken = 4, kBytesThereAndBack = 3, kNetworkShare = 0.8;

double exchange_ms(const StepFacts& facts, const Hardware& hardware, double rows_of_device) {
  const double bytes = facts.sparse_layers * rows_of_device * facts.hidden * kNodesPerToken * kBytesThereAndBack;
  return 1e3 * bytes / (hardware.nic_gbit / 8 * 1e9 * kNetworkShare);
}

// Two halves of a batch take turns: what is longer, exchange or all else, hides the other.
double pass_ms_of(const StepTerms& terms, const std::vector<double>& weights, double exchange) {
  double rest = 0;
  for (int term = 0; term < kTerms; ++term) {
    const auto i = static_cast<std::size_t>(term);
    if (term_kind(term) != 3) rest += weights[i] * terms[i];
  }
  return std::max(exchange, rest);
}

void production(Report& report) {
  const auto facts = facts_for("DeepSeek-V3");
  auto hardware = find_hardware("H800");
  if (!facts || !hardware) return;
  const StepBits bits{8, 8, 16};
  const auto weights = shared_model(RowKind::kMixture, Latency::kTpot)
                           .coefficients(tpot_groups("deepseek-v3", "h800", "sglang", "", bits));
  ParallelLayout prefill, decode;
  prefill.dp = prefill.ep = 32;
  decode.dp = decode.ep = 144;
  constexpr double kRows = 16384;  // of one device in a pass
  StepLoad prompts;
  prompts.prompt_tokens = kRows * prefill.dp;
  prompts.prompts = prompts.prompt_tokens / kContext;
  prompts.prompt_pairs = prompts.prompt_tokens * kContext / 2;
  const double pass_ms =
      pass_ms_of(step_terms(*facts, *hardware, prefill, bits, prompts), weights, exchange_ms(*facts, *hardware, kRows));
  const double input = 1e3 * kRows * kNode / pass_ms / (1 - kCached);
  StepLoad running;
  running.sequences = kOutputPerNode / kPerUser / kNode * decode.dp;
  running.context = kContext;
  const double step_ms = pass_ms_of(step_terms(*facts, *hardware, decode, bits, running), weights,
                                    exchange_ms(*facts, *hardware, running.sequences / decode.dp));
  const double output = 1e3 * running.sequences / decode.dp * kNode / step_ms;
  const std::vector<std::string> assumptions = {
      "DeepSeek-V3 in FP8, KV in BF16, coefficients of mixtures on SGLang with no term of a system of its own",
      "prefill EP32 over 4 nodes, decoding EP144 over 18 nodes, attention by sequences (DP); perfect balance of "
      "experts",
      "exchange: each token to 4 nodes in FP8 and back in BF16, over 80 % of 400 Gbit/s per device; of exchange and "
      "all else the longer hides the other (two halves of a batch)",
      "prefill: 16,384 rows per device and pass; every prompt of 4,989 tokens, of which 56.3 % come from the cache",
      fmt::format(
          "decoding: {:.0f} requests per device, from 14.8 k tokens/s per node at 21 tokens/s per user; context "
          "4,989; no speculative decoding",
          running.sequences / decode.dp)};
  const double input_error = 100 * (input / kInputPerNode - 1), output_error = 100 * (output / kOutputPerNode - 1);
  report.text += fmt::format(
      "DeepSeek production, H800 node: input {:.1f} k tokens/s (measured 73.7, {:+.0f} %: {}), output {:.1f} k "
      "(measured "
      "14.8, {:+.0f} %: {}); goal 20 %\n",
      input / 1e3, input_error, std::abs(input_error) <= 20 ? "met" : "missed", output / 1e3, output_error,
      std::abs(output_error) <= 20 ? "met" : "missed");
  for (const auto& line : assumptions) report.text += "  assumed: " + line + "\n";
  report.json["deepseek_production"] = {{"input_per_node", input},
                                        {"input_error_percent", input_error},
                                        {"output_per_node", output},
                                        {"output_error_percent", output_error},
                                        {"assumptions", assumptions}};
}

}  // namespace

Result<Report> validate_published() {
  Report report;
  report.json = Json::object();
  anchors(report);
  production(report);
  return report;
}

}  // namespace weir::plan
