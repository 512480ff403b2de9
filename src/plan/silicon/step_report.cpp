#include "plan/silicon/step_report.h"

#include <fmt/format.h>

#include <cmath>

#include "plan/memory.h"
#include "plan/silicon/validate_silicon.h"
#include "plan/step/fitted_step.h"

namespace weir::plan {

Result<Report> step_report(const StepQuestion& q) {
  if (q.hardware.kind != "gpu") {
    return fail_at(
        "gpu", ErrorCode::kUnsupported,
        "{} is no GPU, and deployments were measured on GPUs only: `weir plan roofline` has its bounds, `weir "
        "plan calibrate` measures this machine",
        q.hardware.name);
  }
  const MemoryOptions options{.layout = q.layout, .types = q.types, .kv_bits = q.kv_bits};
  WEIR_TRY(const MemoryUse memory, memory_use(q.card, q.hardware, options));
  const auto tokens = static_cast<std::int64_t>(std::ceil(q.input_tokens + q.output_tokens));
  WEIR_RETURN_IF_ERROR(check_fits(q.card, q.hardware, options, memory, tokens));
  if (q.card.spec.context_length > 0 && tokens > q.card.spec.context_length) {
    return fail_at("input", ErrorCode::kContextLengthExceeded,
                   "{:.10g} tokens in and {:.10g} out are more than the context of {}, {} tokens", q.input_tokens,
                   q.output_tokens, q.card.name, q.card.spec.context_length);
  }
  WEIR_RETURN_IF_ERROR(make_step_model(q.card, q.hardware, q.layout, q.types, q.kv_bits, q.backend));
  SiliconRow row;
  row.facts = facts_of(q.card);
  row.hardware = q.hardware;
  row.layout = row.prefill_layout = q.layout;
  row.bits = step_bits(q.types, q.kv_bits);
  row.input_tokens = q.input_tokens;
  row.output_tokens = q.output_tokens;
  row.concurrency = q.concurrency;
  row.ttft_ms = row.tpot_ms = 1;
  const auto groups = measured_groups(q.card.name, q.hardware, q.backend, row.bits);
  row.backend = groups[0];
  row.system = groups[1];
  row.model = groups[3];
  row.version = groups[5].substr(groups[5].rfind('|') + 1);
  Report report;
  report.text = fmt::format("{} on {} {}, {} requests of {} + {} tokens\n", q.card.name, q.hardware.name,
                            q.layout.name(), q.concurrency, q.input_tokens, q.output_tokens);
  report.json = {{"model", q.card.name}, {"hardware", q.hardware.name}, {"layout", q.layout.name()}};
  for (const Latency latency : {Latency::kTpot, Latency::kTtft}) {
    const SiliconModel& model = shared_model(row.kind(), latency);
    const Interval interval = past_errors(row.kind(), latency).at(model.support(row));
    const Estimate e = estimate(model.log_ms(row), interval, floor_ms(row, latency));
    const auto name = kLatencyNames[static_cast<std::size_t>(latency)];
    report.text += fmt::format("{}: {:.2f} ms, 90 % interval {:.2f} to {:.2f} ms\n", name, e.ms, e.low_ms, e.high_ms);
    if (e.raised) {
      report.text +=
          fmt::format("  raised to the roofline's bound: {} takes {:.2f} ms at full bandwidth and peak\n",
                      latency == Latency::kTpot ? "a decoding pass" : "the prefill of one prompt", e.floor_ms);
    }
    report.json[std::string(name)] = {{"ms", e.ms},
                                      {"low_ms", e.low_ms},
                                      {"high_ms", e.high_ms},
                                      {"bound_ms", e.floor_ms},
                                      {"raised_to_bound", e.raised}};
  }
  const double running = running_requests(row);
  report.text +=
      fmt::format("of {} requests {:.0f} run at once\nTPOT by terms (coefficient x bound):\n", q.concurrency, running);
  const auto weights = shared_model(row.kind(), Latency::kTpot).coefficients(groups);
  const StepTerms terms = tpot_terms(row);
  auto parts = nlohmann::ordered_json::object();
  for (int term = 0; term < kTerms; ++term) {
    const auto i = static_cast<std::size_t>(term);
    if (terms[i] <= 0) continue;
    report.text += fmt::format("  {:<24} {:>7.3f} x {:>9.4f} ms = {:>8.3f} ms\n", term_name(term), weights[i], terms[i],
                               weights[i] * terms[i]);
    parts[std::string(term_name(term))] = {
        {"coefficient", weights[i]}, {"bound_ms", terms[i]}, {"ms", weights[i] * terms[i]}};
  }
  report.json["running_requests"] = running;
  report.json["terms"] = std::move(parts);
  return report;
}

}  // namespace weir::plan
