#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "apps/validate_live.h"

namespace weir::apps {
namespace {

using Json = nlohmann::ordered_json;

struct Figure {
  const char* name;
  double LiveFigures::* value;
  double target;  // of the median error over the scenarios
  double scale;   // for people
};
constexpr Figure kFigures[] = {{"throughput", &LiveFigures::output_tok_s, 0.02, 1},
                               {"tpot", &LiveFigures::tpot_s, 0.03, 1e3},
                               {"e2e", &LiveFigures::e2e_s, 0.03, 1e3},
                               {"ttft", &LiveFigures::ttft_s, 0.08, 1e3},
                               {"ttft_p99", &LiveFigures::ttft_p99_s, 0.12, 1e3}};

double mean_of(const std::vector<LiveFigures>& runs, double LiveFigures::* value) {
  double sum = 0;
  for (const LiveFigures& run : runs) sum += run.*value;
  return runs.empty() ? 0 : sum / static_cast<double>(runs.size());
}

// Of the means over the runs.
double error_of(const LiveScenario& s, const Figure& figure) {
  const double measured = mean_of(s.measured, figure.value);
  return measured > 0 ? mean_of(s.predicted, figure.value) / measured - 1 : 0;
}

// How far the mean of the measured runs is likely to be from that of ever more runs: what a prediction of the latter
// would miss by, so the same statistic as error_of(). Mean deviation over the root of the other runs' number; of two
// runs, half of how much they differ.
double noise_of(const LiveScenario& s, const Figure& figure) {
  const double mean = mean_of(s.measured, figure.value);
  const auto runs = static_cast<double>(s.measured.size());
  if (runs < 2 || mean <= 0) return 0;
  double sum = 0;
  for (const LiveFigures& run : s.measured) sum += std::abs(run.*figure.value - mean);
  return sum / runs / std::sqrt(runs - 1) / mean;
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return 0.5 * (values[(n - 1) / 2] + values[n / 2]);
}

template <class Of>
double median_over(const std::vector<LiveScenario>& scenarios, Of&& of) {
  std::vector<double> values;
  for (const LiveScenario& s : scenarios) values.push_back(of(s));
  return median(std::move(values));
}

Json scenario_json(const LiveScenario& s) {
  Json out = {{"model", s.model}, {"arrivals", s.arrivals}, {"cache", s.cache},      {"chunk", s.chunk},
              {"load", s.load},   {"rate", s.rate},         {"requests", s.requests}};
  out["slowdown"] = s.slowdown;
  for (const double lag : s.lag_p99_s) out["lag_p99_ms"].push_back(lag * 1e3);
  for (const Figure& figure : kFigures) {
    Json one;
    for (const LiveFigures& run : s.measured) one["measured"].push_back(run.*figure.value * figure.scale);
    for (const LiveFigures& run : s.predicted) one["predicted"].push_back(run.*figure.value * figure.scale);
    one["error"] = error_of(s, figure);
    one["noise"] = noise_of(s, figure);
    out[figure.name] = std::move(one);
  }
  return out;
}

std::string scenario_row(const LiveScenario& s) {
  double slowdown = 0, lag = 0;
  for (const double v : s.slowdown) slowdown += v / static_cast<double>(s.slowdown.size());
  for (const double v : s.lag_p99_s) lag = std::max(lag, v);
  std::string row = fmt::format("{:<18.18} {:<8} {:<4}{:>5}{:>5.0f}{:>6}{:>7.2f}{:>7.2f} ", s.model, s.arrivals,
                                s.cache ? "on" : "off", s.chunk, 100 * s.load, s.requests, slowdown, lag * 1e3);
  for (const Figure& figure : kFigures)
    row += fmt::format("{:>9.1f}{:>+6.1f}{:>6.1f}", mean_of(s.measured, figure.value) * figure.scale,
                       100 * error_of(s, figure), 100 * noise_of(s, figure));
  return row + "\n";
}

}  // namespace

plan::Report live_report(const std::vector<LiveScenario>& scenarios, const std::vector<LiveMemory>& memory,
                         const std::vector<plan::CalibratedStep>& steps) {
  plan::Report report;
  auto& text = report.text;
  for (const auto& step : steps) {
    text += fmt::format("{}: {}; {} steps fitted, median error {:.2f} %, reference load {:.3f} s\n", step.model,
                        step.machine, step.quality.steps, 100 * step.quality.median_error, step.reference_s);
    report.json["step_models"].push_back(step.to_json());
  }
  text += fmt::format("\n{:<18} {:<8} {:<4}{:>5}{:>5}{:>6}{:>7}{:>7} ", "model", "arrivals", "cach", "chunk", "load",
                      "n", "drift", "lag ms");
  for (const Figure& figure : kFigures) text += fmt::format("{:>9}{:>6}{:>6}", figure.name, "err%", "noise");
  text += '\n';
  for (const LiveScenario& s : scenarios) {
    text += scenario_row(s);
    report.json["scenarios"].push_back(scenario_json(s));
  }
  text += fmt::format("\n{:<12}{:>16}{:>10}{:>16}{:>20}\n", "figure", "median error", "target", "noise alone",
                      "median with sign");
  bool all = true;
  for (const Figure& figure : kFigures) {
    const double error = median_over(scenarios, [&](const auto& s) { return std::abs(error_of(s, figure)); });
    const double bias = median_over(scenarios, [&](const auto& s) { return error_of(s, figure); });
    const double noise = median_over(scenarios, [&](const auto& s) { return noise_of(s, figure); });
    const bool met = error <= figure.target;
    all = all && met;
    text += fmt::format("{:<12}{:>14.2f} %{:>8.0f} %{:>14.2f} %{:>+18.2f} %   {}\n", figure.name, 100 * error,
                        100 * figure.target, 100 * noise, 100 * bias, met ? "met" : "missed");
    report.json["median"][figure.name] = {
        {"error", error}, {"target", figure.target}, {"noise", noise}, {"bias", bias}, {"met", met}};
  }
  text += '\n';
  all = report_memory(memory, report) && all;
  report.json["met"] = all;
  text +=
      "\ndrift: how long the reference load took around the run, over its time at calibration; it scales predictions.\n"
      "noise: how far the mean of these runs is likely to be from that of ever more: what a perfect prediction misses "
      "by.\n";
  return report;
}

}  // namespace weir::apps
