#include "plan/vllm/validate.h"

#include <algorithm>
#include <cmath>

namespace weir::plan::vllm {

namespace {

// A profile is not further from a server than this; beyond, something else is wrong.
constexpr double kLeastFactor = 0.85, kMostFactor = 1.2;

struct Metric {
  const char* name;
  const char* published;  // as LLMServingSim's summary calls it
  Statistics RunFigures::* of;
};
constexpr Metric kMetrics[] = {{"TTFT", "TTFT", &RunFigures::ttft_ms},
                               {"TPOT", "TPOT", &RunFigures::tpot_ms},
                               {"E2E", "Latency", &RunFigures::e2e_ms}};

struct Part {
  const char* name;
  const char* published;
  double Statistics::* of;
};
constexpr Part kParts[] = {{"mean", "Mean", &Statistics::mean},
                           {"p50", "Median", &Statistics::p50},
                           {"p90", "P90", &Statistics::p90},
                           {"p99", "P99", &Statistics::p99}};

double error_percent(double predicted, double measured) {
  return measured > 0 ? (predicted / measured - 1) * 100 : 0;
}

// Mean over runs of predicted to measured mean TPOT, less 1.
Result<double> tpot_error(const std::vector<const Run*>& runs, double factor) {
  double sum = 0;
  for (const Run* run : runs) {
    WEIR_TRY(const Replay played, replay(*run, factor));
    const double measured = figures(*run, run->measured).tpot_ms.mean;
    if (measured > 0) sum += figures(*run, played.times).tpot_ms.mean / measured - 1;
  }
  return sum / static_cast<double>(runs.size());
}

bool is_other_on_device(const Run& other, const Run& run) {
  return other.device.name == run.device.name && other.identity != run.identity;
}

nlohmann::ordered_json json_of(const RunFigures& figures) {
  nlohmann::ordered_json json;
  for (const Metric& metric : kMetrics) {
    for (const Part& part : kParts) json[metric.name + std::string("_ms")][part.name] = figures.*metric.of.*part.of;
  }
  json["output_tokens_per_s"] = figures.output_tokens_per_s;
  return json;
}

nlohmann::ordered_json json_of(const Validation& one) {
  nlohmann::ordered_json json{{"run", one.name},
                              {"device", one.device},
                              {"model", one.model},
                              {"requests", one.requests},
                              {"steps", one.steps},
                              {"preemptions", one.preemptions},
                              {"load_factor", one.factor.value}};
  json["load_factor_fitted_on"] = one.factor.fitted_on;
  json["measured"] = json_of(one.measured);
  json["predicted"] = json_of(one.predicted);
  nlohmann::ordered_json& errors = json["error_percent"];
  for (const Metric& metric : kMetrics) {
    for (const Part& part : kParts) {
      errors[metric.name][part.name] =
          error_percent(one.predicted.*metric.of.*part.of, one.measured.*metric.of.*part.of);
    }
  }
  errors["throughput"] = error_percent(one.predicted.output_tokens_per_s, one.measured.output_tokens_per_s);
  if (!one.published_errors.empty()) json["llmservingsim_error_percent"] = one.published_errors;
  return json;
}

std::string text_of(const Validation& one) {
  std::string text = fmt::format("{}: {} requests of {} on {}, {} steps, {} preemptions\n", one.name, one.requests,
                                 one.model, one.device, one.steps, one.preemptions);
  if (one.factor.fitted_on.empty()) {
    text += "  load factor 1: no other run on this device to fit one on\n";
  } else {
    text += fmt::format("  load factor {:.4f}, fitted on {} and not on this run\n", one.factor.value,
                        fmt::join(one.factor.fitted_on, ", "));
  }
  text += fmt::format("  {:<12}{:>12}{:>12}{:>9}{:>16}\n", "", "measured", "predicted", "error", "LLMServingSim");
  const auto line = [&](const std::string& name, double measured, double predicted, const std::string& published) {
    const auto found = one.published_errors.find(published);
    text += fmt::format("  {:<12}{:>12.1f}{:>12.1f}{:>8.2f}%{:>16}\n", name, measured, predicted,
                        error_percent(predicted, measured),
                        found == one.published_errors.end() ? "" : fmt::format("{:.1f}%", found->second));
  };
  for (const Metric& metric : kMetrics) {
    for (const Part& part : kParts) {
      line(fmt::format("{} {}, ms", metric.name, part.name), one.measured.*metric.of.*part.of,
           one.predicted.*metric.of.*part.of, metric.published + std::string(" ") + part.published);
    }
  }
  line("tokens/s", one.measured.output_tokens_per_s, one.predicted.output_tokens_per_s, "");
  return text + "\n";
}

}  // namespace

Statistics statistics(std::vector<double> values) {
  Statistics found;
  if (values.empty()) return found;
  std::sort(values.begin(), values.end());
  for (const double value : values) found.mean += value / static_cast<double>(values.size());
  const auto percentile = [&](double share) {
    const double rank = share * static_cast<double>(values.size() - 1);
    const auto low = static_cast<std::size_t>(rank);
    const std::size_t high = std::min(low + 1, values.size() - 1);
    return values[low] + (values[high] - values[low]) * (rank - static_cast<double>(low));
  };
  found.p50 = percentile(0.5);
  found.p90 = percentile(0.9);
  found.p99 = percentile(0.99);
  return found;
}

RunFigures figures(const Run& run, const std::vector<RequestTimes>& times) {
  std::vector<double> ttft_ms, tpot_ms, e2e_ms;
  double tokens = 0, last_s = 0;
  for (std::size_t i = 0; i < times.size(); ++i) {
    const RequestTimes& one = times[i];
    const auto output = static_cast<double>(run.requests[i].output_tokens);
    ttft_ms.push_back((one.first_s - one.queued_s) * 1e3);
    e2e_ms.push_back((one.last_s - one.queued_s) * 1e3);
    if (output >= 2) tpot_ms.push_back((one.last_s - one.first_s) * 1e3 / (output - 1));
    tokens += output;
    last_s = std::max(last_s, one.last_s);
  }
  RunFigures found{statistics(std::move(ttft_ms)), statistics(std::move(tpot_ms)), statistics(std::move(e2e_ms)), 0};
  if (last_s > 0) found.output_tokens_per_s = tokens / last_s;
  return found;
}

Result<LoadFactor> load_factor(const Run& run, const std::vector<Run>& others) {
  std::vector<const Run*> same;
  LoadFactor found;
  for (const Run& other : others) {
    if (!is_other_on_device(other, run)) continue;
    same.push_back(&other);
    found.fitted_on.push_back(other.name);
  }
  if (same.empty()) return found;
  // TPOT grows with the factor nearly in proportion: the secant settles in a few rounds. It does not end at zero where
  // steps change places as the factor moves; the last round is near enough.
  constexpr int kRounds = 5;
  constexpr double kEnough = 1e-4;
  double before = 1, factor = 1.02;
  WEIR_TRY(double error_before, tpot_error(same, before));
  for (int round = 0; round < kRounds; ++round) {
    WEIR_TRY(const double error, tpot_error(same, factor));
    const double slope = (error - error_before) / (factor - before);
    before = factor;
    error_before = error;
    if (std::abs(error) < kEnough || !(slope > 0.1)) break;
    factor = std::clamp(factor - error / slope, kLeastFactor, kMostFactor);
    if (factor == before) break;
  }
  found.value = factor;
  return found;
}

Result<Validation> validate(const Run& run, const std::vector<Run>& others) {
  Validation one;
  one.name = run.name;
  one.device = run.device.name;
  one.model = run.model;
  one.requests = run.requests.size();
  one.published_errors = run.published_errors;
  WEIR_TRY(one.factor, load_factor(run, others));
  WEIR_TRY(const Replay played, replay(run, one.factor.value));
  one.steps = played.steps;
  one.preemptions = played.preemptions;
  one.measured = figures(run, run.measured);
  one.predicted = figures(run, played.times);
  return one;
}

Result<Report> validate_vllm(const std::string& folder) {
  WEIR_TRY(const std::vector<Run> known, known_runs());
  std::vector<Run> given;
  if (!folder.empty()) {
    WEIR_TRY(given, read_runs(folder));
  }
  Report report;
  report.text =
      "vLLM runs predicted from kernel profiles, settings and arrivals; no measured time of a run is used for it.\n"
      "TTFT and E2E count from when the engine read the request. LLMServingSim: that simulator's error on the run.\n\n";
  for (const Run& run : folder.empty() ? known : given) {
    const bool device_known =
        std::any_of(known.begin(), known.end(), [&](const Run& other) { return is_other_on_device(other, run); });
    WEIR_TRY(const Validation one, validate(run, device_known ? known : given));
    report.text += text_of(one);
    report.json["runs"].push_back(json_of(one));
  }
  return report;
}

}  // namespace weir::plan::vllm
