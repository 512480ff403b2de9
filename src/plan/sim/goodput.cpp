#include "plan/sim/goodput.h"

#include <algorithm>
#include <cmath>

namespace weir::plan::sim {

namespace {

// Rates above that many times what lone requests could make are not tried.
constexpr int kMostDoublings = 40;
constexpr int kMostPoints = 80;
constexpr std::size_t kLoneRequests = 200;  // of a workload, for the best that can be had

double at_share(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  const auto index = static_cast<std::size_t>(std::max(0.0, std::ceil(static_cast<double>(values.size()) * share) - 1));
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(index), values.end());
  return values[index];
}

// All seeds at one rate.
struct Tally {
  std::vector<double> ttft, tpot, e2e;
  RatePoint point;
  int runs = 0;

  void add(const SimResult& result, const Slo& slo) {
    const Summary summary = summarise(result, slo);
    point.saturated = point.saturated || summary.saturated;
    point.output_token_rate += summary.output_token_rate;
    point.utilisation += summary.utilisation;
    ++runs;
    for (const RequestResult& request : result.requests) {
      ++point.requests;
      point.failures += !slo.met_by(request);
      if (request.refused) continue;
      ttft.push_back(request.ttft_s());
      e2e.push_back(request.e2e_s());
      if (request.output_tokens > 1) tpot.push_back(request.tpot_s());
    }
  }

  RatePoint finish(double rate, const Slo& slo) {
    point.rate = rate;
    point.attained = 1 - static_cast<double>(point.failures) / static_cast<double>(point.requests);
    point.ttft = at_share(std::move(ttft), slo.share);
    point.tpot = at_share(std::move(tpot), slo.share);
    point.e2e = at_share(std::move(e2e), slo.share);
    point.output_token_rate /= runs;
    point.utilisation /= runs;
    point.passes = point.attained >= slo.share && !point.saturated;
    return point;
  }
};

Result<RatePoint> try_rate(const Scenario& scenario, const Load& load, const GoodputSpec& spec, double rate) {
  Tally tally;
  for (int k = 0; k < spec.seeds; ++k) {
    WEIR_TRY(const Workload workload, load.draw(spec.seed + static_cast<std::uint64_t>(k), rate));
    WEIR_TRY(const SimResult result, simulate(scenario.cluster, workload));
    tally.add(result, spec.slo);
  }
  return tally.finish(rate, spec.slo);
}

// A client that sends its next request when it has the reply.
Result<RatePoint> try_lone(const Scenario& scenario, const Load& load, const GoodputSpec& spec, double& mean_e2e_s) {
  WEIR_TRY(Workload workload, load.draw(spec.seed));
  // Evenly over the workload, whatever order it has.
  std::vector<Request> some;
  const std::size_t step = std::max<std::size_t>(1, workload.requests.size() / kLoneRequests);
  for (std::size_t i = 0; i < workload.requests.size(); i += step) some.push_back(workload.requests[i]);
  workload.requests = std::move(some);
  for (Request& request : workload.requests) request.arrival_s = 0;
  workload.concurrency = 1;
  workload.think_s = 0;
  WEIR_TRY(const SimResult result, simulate(scenario.cluster, workload));
  mean_e2e_s = summarise(result, spec.slo).e2e_s.mean;
  Tally tally;
  tally.add(result, spec.slo);
  RatePoint point = tally.finish(0, spec.slo);
  point.rate = mean_e2e_s > 0 ? 1 / mean_e2e_s : 0;
  return point;
}

Status check_possible(const Scenario& scenario, const RatePoint& lone, const Slo& slo) {
  if (lone.attained >= slo.share) return {};
  StepShape one;
  one.add(1, 2, true);
  const InstanceConfig& decode =
      scenario.cluster.decode_instances > 0 ? scenario.cluster.decode : scenario.cluster.instance;
  const double step_s = decode.model->step_s(one);
  if (slo.tpot_s && step_s > *slo.tpot_s) {
    return fail_at(
        "tpot-ms", ErrorCode::kInvalidArgument,
        "the promised TPOT of {:.3f} ms is below one step: a step that decodes a single token takes {:.3f} ms",
        *slo.tpot_s * 1e3, step_s * 1e3);
  }
  if (slo.ttft_s && lone.ttft > *slo.ttft_s) {
    return fail_at(
        "ttft-ms", ErrorCode::kInvalidArgument,
        "the promised TTFT of {:.3f} ms cannot be kept at any rate: alone on an idle instance, {:g} % of requests "
        "get their first token within {:.3f} ms",
        *slo.ttft_s * 1e3, 100 * slo.share, lone.ttft * 1e3);
  }
  if (slo.tpot_s && lone.tpot > *slo.tpot_s) {
    return fail_at(
        "tpot-ms", ErrorCode::kInvalidArgument,
        "the promised TPOT of {:.3f} ms cannot be kept at any rate: alone on an idle instance, {:g} % of requests "
        "decode at {:.3f} ms a token",
        *slo.tpot_s * 1e3, 100 * slo.share, lone.tpot * 1e3);
  }
  if (slo.e2e_s && lone.e2e > *slo.e2e_s) {
    return fail_at("e2e-ms", ErrorCode::kInvalidArgument,
                   "the promised E2E of {:.3f} ms cannot be kept at any rate: alone on an idle instance, {:g} % of "
                   "requests are done within {:.3f} ms",
                   *slo.e2e_s * 1e3, 100 * slo.share, lone.e2e * 1e3);
  }
  return fail(ErrorCode::kInvalidArgument,
              "no rate keeps the promise: one at a time, {:.2f} % of requests get it ({} of {} do not), {:g} % must",
              100 * lone.attained, lone.failures, lone.requests, 100 * slo.share);
}

std::string describe(const Slo& slo) {
  std::string text;
  const auto add = [&](const char* name, const std::optional<double>& limit) {
    if (limit) text += fmt::format("{}{} <= {:g} ms", text.empty() ? "" : ", ", name, *limit * 1e3);
  };
  add("TTFT", slo.ttft_s);
  add("TPOT", slo.tpot_s);
  add("E2E", slo.e2e_s);
  return fmt::format("{} for {:g} % of requests", text, 100 * slo.share);
}

nlohmann::ordered_json to_json(const RatePoint& point) {
  return {{"rate_per_s", point.rate},
          {"slo_attainment", point.attained},
          {"ttft_at_share_ms", point.ttft * 1e3},
          {"tpot_at_share_ms", point.tpot * 1e3},
          {"e2e_at_share_ms", point.e2e * 1e3},
          {"output_tokens_per_s", point.output_token_rate},
          {"utilisation", point.utilisation},
          {"saturated", point.saturated},
          {"passes", point.passes},
          {"requests", point.requests},
          {"failures", point.failures}};
}

}  // namespace

const RatePoint* GoodputResult::best() const {
  const auto it =
      std::find_if(points.begin(), points.end(), [this](const RatePoint& p) { return p.rate == rate && p.passes; });
  return it == points.end() ? nullptr : &*it;
}

Result<GoodputResult> find_goodput(const Scenario& scenario, const Load& load, const GoodputSpec& spec) {
  if (!load.has_rate()) {
    return fail_at("arrivals", ErrorCode::kInvalidArgument,
                   "goodput searches a rate: --arrivals must be poisson, gamma, constant, burst, or a trace's own");
  }
  if (!spec.slo.any())
    return fail_at("ttft-ms", ErrorCode::kInvalidArgument,
                   "nothing is promised: give --ttft-ms, --tpot-ms or --e2e-ms");
  if (!(spec.slo.share > 0 && spec.slo.share < 1) || !(spec.precision >= 1e-4 && spec.precision < 1) ||
      spec.seeds < 1 || spec.seeds > 1000) {
    return fail_at("share", ErrorCode::kInvalidArgument,
                   "a share of {}, a precision of {}, {} seeds: above 0 to below 1, 0.0001 to "
                   "below 1, 1 to 1000 are possible",
                   spec.slo.share, spec.precision, spec.seeds);
  }
  GoodputResult found;
  double lone_e2e_s = 0;
  WEIR_TRY(found.lone, try_lone(scenario, load, spec, lone_e2e_s));
  WEIR_RETURN_IF_ERROR(check_possible(scenario, found.lone, spec.slo));
  const auto passes = [&](double rate) -> Result<bool> {
    WEIR_TRY(const RatePoint point, try_rate(scenario, load, spec, rate));
    found.points.push_back(point);
    return point.passes;
  };
  // From a rate that leaves instances idle half of the time, up or down by halves, then between.
  double low = 0, high = 0, rate = 0.5 * found.lone.rate * scenario.cluster.instances;
  for (int i = 0; i < kMostDoublings && (low == 0 || high == 0); ++i) {
    WEIR_TRY(const bool good, passes(rate));
    (good ? low : high) = rate;
    rate *= good ? 2 : 0.5;
  }
  if (low == 0) {
    return fail(ErrorCode::kInvalidArgument,
                "no rate down to {:g} requests/s keeps the promise, although lone requests get it: "
                "requests come in bursts too large for it",
                high);
  }
  while (high > 0 && high / low > 1 + spec.precision && found.points.size() < kMostPoints) {
    const double middle = std::sqrt(low * high);
    WEIR_TRY(const bool good, passes(middle));
    (good ? low : high) = middle;
  }
  found.rate = low;
  return found;
}

Result<Report> goodput_report(const Scenario& scenario, const Load& load, const GoodputSpec& spec) {
  WEIR_TRY(const GoodputResult found, find_goodput(scenario, load, spec));
  const RatePoint& best = *found.best();
  const std::int64_t needed = samples_needed(spec.slo.share);
  const double chance = chance_of(best.failures, best.requests, spec.slo.share);
  const bool claimable = best.requests >= needed && chance <= 0.01;
  Report report;
  report.text = fmt::format("load      {}\npromise   {}\n", load.describe_at_any_rate(), describe(spec.slo));
  for (const std::string& assumption : scenario.assumptions) report.text += fmt::format("assumes   {}\n", assumption);
  report.text += fmt::format("\n{:>12}{:>12}{:>14}{:>14}{:>14}{:>8}  {}\n", "requests/s", "attained", "TTFT ms",
                             "TPOT ms", "output tok/s", "busy", "");
  std::vector<RatePoint> points = found.points;
  std::sort(points.begin(), points.end(), [](const RatePoint& a, const RatePoint& b) { return a.rate < b.rate; });
  const auto line = [&](const RatePoint& p, const char* mark) {
    return fmt::format("{:>12.4g}{:>10.2f} %{:>14.1f}{:>14.2f}{:>14.0f}{:>6.0f} %  {}\n", p.rate, 100 * p.attained,
                       p.ttft * 1e3, p.tpot * 1e3, p.output_token_rate, 100 * p.utilisation, mark);
  };
  report.text += line(found.lone, "one at a time");
  for (const RatePoint& p : points) {
    report.text += line(p, p.rate == found.rate ? "<- the highest that passes"
                           : p.saturated        ? "saturated"
                           : p.passes           ? ""
                                                : "fails");
  }
  report.text += fmt::format(
      "\ngoodput   {:.4g} requests/s, {:.4g} an instance\nsamples   {} requests in {} seeds, {} failures; MLPerf asks "
      "for {} and more, "
      "and a chance of at most 1 %\n          of so few failures if the share were just missed: it is {:.2g} %, so the "
      "claim {}\n",
      found.rate, found.rate / (scenario.cluster.instances + scenario.cluster.decode_instances), best.requests,
      spec.seeds, best.failures, needed, 100 * chance,
      claimable ? "stands" : "does not stand (run more requests or a lower rate)");
  report.json = {
      {"load", load.describe_at_any_rate()},
      {"slo", describe(spec.slo)},
      {"goodput_per_s", found.rate},
      {"goodput_per_instance_per_s", found.rate / (scenario.cluster.instances + scenario.cluster.decode_instances)},
      {"assumptions", scenario.assumptions},
      {"seed", spec.seed},
      {"seeds", spec.seeds},
      {"samples_needed", needed},
      {"chance_percent", 100 * chance},
      {"claim_stands", claimable},
      {"lone", to_json(found.lone)},
      {"best", to_json(best)}};
  report.json["points"] = nlohmann::ordered_json::array();
  for (const RatePoint& p : points) report.json["points"].push_back(to_json(p));
  return report;
}

}  // namespace weir::plan::sim
