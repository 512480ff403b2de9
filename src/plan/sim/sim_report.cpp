#include "plan/sim/sim_report.h"

#include <cmath>

namespace weir::plan::sim {

namespace {

std::string requests_table(const SimResult& result, const Workload& workload) {
  std::string text =
      "request,sent_s,scheduled_s,first_token_s,last_token_s,prompt_tokens,output_tokens,cached_tokens,"
      "loaded_tokens,preemptions,instance,decode_instance,refused\n";
  for (std::size_t i = 0; i < result.requests.size(); ++i) {
    const RequestResult& r = result.requests[i];
    text += fmt::format("{},{:.9g},{:.9g},{:.9g},{:.9g},{},{},{},{},{},{},{},{}\n", i, r.sent_s, r.scheduled_s,
                        r.first_s, r.last_s, workload.requests[i].prompt_tokens, r.output_tokens, r.cached_tokens,
                        r.loaded_tokens, r.preemptions, r.instance, r.decode_instance, r.refused ? 1 : 0);
  }
  return text;
}

std::string latency_line(const char* name, const Statistic& s, int digits) {
  if (s.count == 0) return fmt::format("{:<12}{:>12}  no request has one: replies of one token\n", name, "-");
  const auto cell = [&](double seconds) { return fmt::format("{:>12.{}f}", seconds * 1e3, digits); };
  return fmt::format("{:<12}{}{}{}{}{}{}\n", name, cell(s.mean), cell(s.p50), cell(s.p90), cell(s.p95), cell(s.p99),
                     cell(s.most));
}

std::string latencies(const Summary& s) {
  std::string text =
      fmt::format("{:<12}{:>12}{:>12}{:>12}{:>12}{:>12}{:>12}\n", "ms", "mean", "p50", "p90", "p95", "p99", "max");
  text += latency_line("TTFT", s.ttft_s, 1);
  text += latency_line("TPOT", s.tpot_s, 2);
  text += latency_line("ITL", s.itl_s, 2);
  return text + latency_line("E2E", s.e2e_s, 1);
}

std::string figures_text(const Summary& s, const Slo& slo) {
  std::string text = fmt::format(
      "\nrequests    {} done, {} refused, over {:.1f} s: {:.3f}/s, {:.0f} prompt tokens/s, {:.0f} output tokens/s\n",
      s.requests - s.refused, s.refused, s.span_s, s.request_rate, s.input_token_rate, s.output_token_rate);
  text += latencies(s);
  if (slo.any())
    text += fmt::format("promise     kept for {:.2f} % of requests: goodput {:.3f} requests/s\n", 100 * s.attained,
                        s.goodput);
  text += fmt::format("prefixes    {:.2f} % of prompt tokens found in pools, {:.2f} % fetched from tiers\n",
                      100 * s.prefix_hit, 100 * s.fetched);
  text += fmt::format(
      "instances   busy {:.1f} % of the time; KV {:.1f} % in use while busy, {:.1f} % at most; {} preemptions; {} "
      "steps; "
      "{:.1f} requests in the system\n",
      100 * s.utilisation, 100 * s.kv_usage, 100 * s.kv_peak, s.preemptions, s.steps, s.mean_in_system);
  if (s.transferred_bytes > 0) {
    text +=
        fmt::format("hand-over   {:.1f} GB; {:.2f} ms of waiting a request\n", s.transferred_bytes / 1e9,
                    1e3 * s.transfer_wait_s / static_cast<double>(std::max<std::int64_t>(1, s.requests - s.refused)));
  }
  if (s.fetched_bytes > 0) text += fmt::format("tiers       {:.1f} GB fetched\n", s.fetched_bytes / 1e9);
  if (s.saturated)
    text +=
        "saturated   waiting grows to the end: more comes than can be done, so latencies depend on how long this goes "
        "on\n";
  return text;
}

}  // namespace

Result<SimReport> simulate_load(const Scenario& scenario, const Load& load, const SimSpec& spec) {
  if (spec.seeds < 1 || spec.seeds > 10000) {
    return fail_at("seeds", ErrorCode::kInvalidArgument, "--seeds {}: 1 to 10000 are possible", spec.seeds);
  }
  SimReport made;
  std::vector<Summary> summaries;
  std::optional<SimResult> first;
  Workload first_workload;
  for (int k = 0; k < spec.seeds; ++k) {
    WEIR_TRY(Workload workload, load.draw(spec.seed + static_cast<std::uint64_t>(k)));
    WEIR_TRY(SimResult result, simulate(scenario.cluster, workload));
    summaries.push_back(summarise(result, spec.slo));
    if (k > 0) continue;
    if (spec.want_requests) made.requests = requests_table(result, workload);
    first = std::move(result);
    first_workload = std::move(workload);
  }
  Report& report = made.report;
  report.text = fmt::format("load        {}\n", load.describe());
  for (const std::string& assumption : scenario.assumptions) report.text += fmt::format("assumes     {}\n", assumption);
  report.text += figures_text(summaries.front(), spec.slo);
  report.json = {
      {"load", load.describe()}, {"assumptions", scenario.assumptions}, {"seed", spec.seed}, {"seeds", spec.seeds}};
  report.json["result"] = to_json(summaries.front());
  const Cluster& cluster = scenario.cluster;
  report.json["cluster"] = {{"instances", cluster.instances},
                            {"decode_instances", cluster.decode_instances},
                            {"num_kv_blocks", cluster.instance.num_blocks},
                            {"block_size", cluster.instance.block_tokens},
                            {"max_num_seqs", cluster.instance.scheduler.max_num_seqs},
                            {"max_num_batched_tokens", cluster.instance.scheduler.max_num_batched_tokens},
                            {"kv_bytes_per_token", cluster.kv_bytes_per_token}};
  if (spec.seeds > 1) {
    report.text += fmt::format("\nover {} seeds: mean, and half the width of its 95 % interval\n", spec.seeds);
    for (const Spread& spread : over_seeds(summaries)) {
      if (std::isnan(spread.mean)) continue;  // a seed had none
      report.text += fmt::format("  {:<28}{:>14.6g} +- {:.3g}\n", spread.name, spread.mean, spread.half_width);
      report.json["over_seeds"][spread.name] = {{"mean", spread.mean}, {"half_width_95", spread.half_width}};
    }
  }
  if (spec.want_page) made.page = html_page(report, *first, first_workload);
  if (spec.want_picture) made.picture = svg_picture(*first, first_workload);
  return made;
}

}  // namespace weir::plan::sim
