// A Summary for people and for programs.
#include <fmt/format.h>

#include <array>

#include "base/printable.h"
#include "driver/metrics.h"

namespace weir::driver {
namespace {

using Json = nlohmann::ordered_json;

struct Percentile {
  const char* name;
  double q;
  double Series::* value;
};
constexpr std::array<Percentile, 5> kPercentiles = {{{"p50", 0.5, &Series::p50},
                                                     {"p90", 0.9, &Series::p90},
                                                     {"p95", 0.95, &Series::p95},
                                                     {"p99", 0.99, &Series::p99},
                                                     {"p99.9", 0.999, &Series::p999}}};

Json series_json(const Series& s) {
  Json out = {{"count", s.count}, {"mean", s.mean * 1e3}, {"std", s.deviation * 1e3}, {"min", s.least * 1e3}};
  for (const Percentile& p : kPercentiles) out[p.name] = s.*p.value * 1e3;
  out["max"] = s.most * 1e3;
  // Percentiles that the sample is too small for: values of this run, no claims about the server.
  Json small = Json::array();
  for (const Percentile& p : kPercentiles)
    if (s.count < samples_needed(p.q)) small.push_back(p.name);
  out["too_few_samples_for"] = std::move(small);
  return out;
}

std::string series_row(const char* name, const Series& s) {
  std::string row = fmt::format("{:<10}{:>10.2f}", name, s.mean * 1e3);
  for (const Percentile& p : kPercentiles)
    row += fmt::format("{:>10}", fmt::format("{:.2f}{}", s.*p.value * 1e3, s.count < samples_needed(p.q) ? "*" : " "));
  return row + fmt::format("{:>10.2f}\n", s.most * 1e3);
}

std::string slo_text(const Slo& slo) {
  std::string out;
  const auto add = [&out](const char* name, const std::optional<double>& limit) {
    if (limit) out += fmt::format("{}{} {:g} ms", out.empty() ? "" : ", ", name, *limit * 1e3);
  };
  add("TTFT", slo.ttft_s);
  add("TPOT", slo.tpot_s);
  add("E2E", slo.e2e_s);
  return out;
}

}  // namespace

std::string to_text(const Summary& s, const Workload& workload, const Slo& slo) {
  const auto& spec = workload.spec();
  std::string out = fmt::format("load        {} requests, {}, seed {}\nlengths     prompts {}, replies {}", s.requests,
                                spec.arrivals.describe(), spec.seed, spec.prompt.describe(), spec.output.describe());
  if (spec.prefix_groups > 0 && spec.prefix_tokens > 0)
    out += fmt::format(", after one of {} prefixes of {}", spec.prefix_groups, spec.prefix_tokens);
  out += spec.text ? "\n            random words: no real text\n"
                   : "\n            random token ids: no real text, no early ends where ignore_eos is known\n";
  out += fmt::format("completed   {} in {:.2f} s, {} failed\n", s.completed, s.duration_s, s.requests - s.completed);
  for (const auto& [why, count] : s.failures) out += fmt::format("  {:>5} x   {}\n", count, printable(why));
  out += fmt::format("throughput  {:.3f} requests/s, {:.1f} output tokens/s, {:.1f} tokens/s in all\n", s.request_s,
                     s.output_tok_s, s.total_tok_s);
  if (s.window.exists()) {
    out += fmt::format("  steady    {:.3f} requests/s, {:.1f} output tokens/s, from {:.2f} to {:.2f} s\n",
                       s.window.requests_s, s.window.output_tok_s, s.window.begin_s, s.window.end_s);
  }
  out += fmt::format("tokens      {} of prompts, {} of them cached, {} of replies ({} asked for)\n", s.prompt_tokens,
                     s.cached_tokens, s.output_tokens, s.asked_output_tokens);
  out += fmt::format("in flight   {:.2f} on average, {} at most\n", s.mean_in_flight, s.peak_in_flight);
  if (slo.any()) out += fmt::format("goodput     {:.3f} requests/s within {}\n", s.goodput_s, slo_text(slo));
  out += fmt::format("driver      lag p99 {:.3f} ms, at most {:.3f} ms; {:.3f} cores\n\n", s.lag.p99 * 1e3,
                     s.lag.most * 1e3, s.client_cpu);
  out += fmt::format("{:<10}{:>10}{:>9} {:>9} {:>9} {:>9} {:>9} {:>10}\n", "ms", "mean", "p50", "p90", "p95", "p99",
                     "p99.9", "max");
  out += series_row("TTFT", s.ttft) + series_row("TPOT", s.tpot) + series_row("ITL", s.itl) +
         series_row("worst gap", s.worst_gap) + series_row("E2E", s.e2e);
  out += "* fewer values than a claim about this percentile needs (64, 130, 662, 6636)\n";
  for (const std::string& warning : s.warnings) out += fmt::format("warning: {}\n", warning);
  return out;
}

Json to_json(const Summary& s, const Workload& workload, const Slo& slo) {
  const auto& spec = workload.spec();
  Json out = {{"requests", s.requests},
              {"completed", s.completed},
              {"failed", s.requests - s.completed},
              {"arrivals", spec.arrivals.describe()},
              {"prompt_lengths", spec.prompt.describe()},
              {"output_lengths", spec.output.describe()},
              {"prefix_groups", spec.prefix_groups},
              {"prefix_tokens", spec.prefix_tokens},
              {"prompts", spec.text ? "random words" : "random token ids"},
              {"seed", spec.seed},
              {"duration_s", s.duration_s},
              {"offered_requests_s", s.offered_rate},
              {"request_throughput", s.request_s},
              {"output_throughput", s.output_tok_s},
              {"total_token_throughput", s.total_tok_s},
              {"prompt_tokens", s.prompt_tokens},
              {"cached_tokens", s.cached_tokens},
              {"output_tokens", s.output_tokens},
              {"asked_output_tokens", s.asked_output_tokens},
              {"counted_by", s.counted_by},
              {"failures", s.failures},
              {"mean_in_flight", s.mean_in_flight},
              {"peak_in_flight", s.peak_in_flight},
              {"client_cores", s.client_cpu}};
  if (slo.any()) {
    out["slo"] = slo_text(slo);
    out["request_goodput"] = s.goodput_s;
  }
  out["steady_window"] = s.window.exists() ? Json({{"begin_s", s.window.begin_s},
                                                   {"end_s", s.window.end_s},
                                                   {"output_throughput", s.window.output_tok_s},
                                                   {"request_throughput", s.window.requests_s}})
                                           : Json();
  out["saturated"] = s.saturation.saturated;
  out["ttft_ms"] = series_json(s.ttft);
  out["tpot_ms"] = series_json(s.tpot);
  out["itl_ms"] = series_json(s.itl);
  out["worst_gap_ms"] = series_json(s.worst_gap);
  out["e2e_ms"] = series_json(s.e2e);
  out["lag_ms"] = series_json(s.lag);
  out["warnings"] = s.warnings;
  return out;
}

Json to_json(const RequestRecord& r, double start_s) {
  static constexpr const char* kNames[] = {"usage", "ids", "chunks", "nothing"};
  const auto since = [start_s](double at_s) { return at_s > 0 ? Json(at_s - start_s) : Json(); };
  Json out = {{"index", r.index},
              {"scheduled_s", since(r.scheduled_s)},
              {"sent_s", since(r.sent_s)},
              {"first_byte_s", since(r.first_byte_s)},
              {"first_token_s", since(r.first_token_s)},
              {"last_token_s", since(r.last_token_s)},
              {"done_s", since(r.done_s)},
              {"prompt_tokens", r.prompt_tokens},
              {"cached_tokens", r.cached_tokens},
              {"output_tokens", r.output_tokens},
              {"asked_prompt_tokens", r.asked_prompt_tokens},
              {"asked_output_tokens", r.asked_output_tokens},
              {"counted_by", kNames[static_cast<std::size_t>(r.counted_by)]},
              {"waited_in_driver", r.queued_in_client},
              {"status", r.status}};
  out["error"] = r.ok() ? Json() : Json(printable(r.error));
  if (r.ok()) {
    out["ttft_ms"] = r.ttft_s() * 1e3;
    out["tpot_ms"] = r.output_tokens > 1 ? Json(r.tpot_s() * 1e3) : Json();
    out["e2e_ms"] = r.e2e_s() * 1e3;
  }
  Json arrivals = Json::array();
  for (const TokenArrival& a : r.arrivals) arrivals.push_back({a.at_s - start_s, a.tokens});
  out["arrivals"] = std::move(arrivals);
  return out;
}

}  // namespace weir::driver
