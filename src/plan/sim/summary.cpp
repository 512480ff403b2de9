#include "plan/sim/summary.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace weir::plan::sim {

namespace {

// Two-sided 95 % points of Student's t for 1, 2, ... degrees of freedom; beyond them the normal's.
constexpr double kStudent[] = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
                               2.201,  2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086};
constexpr double kNormal = 1.96;

// Waiting grows without end if the last third of the requests waits twice as long for a first token as the first third,
// and it takes a good part of the time again to finish what is left.
constexpr double kGrowth = 2, kDrain = 0.05;

bool is_saturated(const SimResult& result, double sent_s, double drain_s) {
  double first = 0, last = 0;
  std::int64_t first_count = 0, last_count = 0;
  const std::size_t n = result.requests.size();
  for (std::size_t i = 0; i < n; ++i) {
    const RequestResult& request = result.requests[i];
    if (request.refused) continue;
    if (i < n / 3) first += request.ttft_s(), ++first_count;
    if (i >= n - n / 3) last += request.ttft_s(), ++last_count;
  }
  if (first_count == 0 || last_count == 0) return false;
  first /= static_cast<double>(first_count);
  last /= static_cast<double>(last_count);
  return last > kGrowth * first && drain_s > kDrain * sent_s;
}

double log_choose(std::int64_t n, std::int64_t k) {
  return std::lgamma(static_cast<double>(n + 1)) - std::lgamma(static_cast<double>(k + 1)) -
         std::lgamma(static_cast<double>(n - k + 1));
}

}  // namespace

bool Slo::met_by(const RequestResult& request) const {
  if (request.refused || !request.finished()) return false;
  return request.ttft_s() <= ttft_s.value_or(HUGE_VAL) && request.tpot_s() <= tpot_s.value_or(HUGE_VAL) &&
         request.e2e_s() <= e2e_s.value_or(HUGE_VAL);
}

Statistic statistic_of(std::vector<double> values) {
  Statistic s;
  if (values.empty()) return s;
  std::sort(values.begin(), values.end());
  double sum = 0;
  for (const double value : values) sum += value;
  const auto n = static_cast<double>(values.size());
  const auto at = [&](double percent) {
    const auto index = static_cast<std::size_t>(std::max(0.0, std::ceil(n * percent / 100) - 1));
    return values[std::min(index, values.size() - 1)];
  };
  s = {static_cast<std::int64_t>(values.size()), sum / n, at(50), at(90), at(95), at(99), values.back()};
  return s;
}

Summary summarise(const SimResult& result, const Slo& slo) {
  Summary s;
  std::vector<double> ttft, tpot, e2e;
  double first_s = HUGE_VAL, last_sent_s = -HUGE_VAL, end_s = -HUGE_VAL, met = 0, loaded = 0, cached = 0;
  double output = 0;
  for (const RequestResult& request : result.requests) {
    ++s.requests;
    first_s = std::min(first_s, request.sent_s);
    last_sent_s = std::max(last_sent_s, request.sent_s);
    s.refused += request.refused;
    if (request.refused) continue;
    end_s = std::max(end_s, request.last_s);
    ttft.push_back(request.ttft_s());
    e2e.push_back(request.e2e_s());
    if (request.output_tokens > 1) tpot.push_back(request.tpot_s());
    met += slo.met_by(request);
    loaded += static_cast<double>(request.loaded_tokens);
    cached += static_cast<double>(request.cached_tokens);
    output += static_cast<double>(request.output_tokens);
  }
  s.span_s = std::max(0.0, end_s - first_s);
  s.sent_s = last_sent_s - first_s;
  s.saturated = is_saturated(result, s.sent_s, end_s - last_sent_s);
  s.ttft_s = statistic_of(std::move(ttft));
  s.tpot_s = statistic_of(std::move(tpot));
  s.e2e_s = statistic_of(std::move(e2e));
  const Distribution& itl = result.itl_s;
  s.itl_s = {itl.count(),        itl.mean(),         itl.percentile(50), itl.percentile(90),
             itl.percentile(95), itl.percentile(99), itl.greatest()};
  const double input = result.prompt_tokens;
  const double per_s = s.span_s > 0 ? 1 / s.span_s : 0;
  s.request_rate = static_cast<double>(s.requests - s.refused) * per_s;
  s.input_token_rate = input * per_s;
  s.output_token_rate = output * per_s;
  s.attained = met / static_cast<double>(s.requests);
  s.goodput = met * per_s;
  s.prefix_hit = input > 0 ? cached / input : 0;
  s.fetched = input > 0 ? loaded / input : 0;
  double busy_s = 0, kv_s = 0;
  for (const InstanceResult& instance : result.instances) {
    busy_s += instance.busy_s;
    kv_s += instance.kv_usage_s;
    s.kv_peak = std::max(s.kv_peak, instance.kv_peak);
    s.preemptions += static_cast<std::int64_t>(instance.preemptions);
    s.steps += instance.steps;
  }
  s.utilisation = busy_s * per_s / static_cast<double>(result.instances.size());
  s.kv_usage = busy_s > 0 ? kv_s / busy_s : 0;
  s.mean_in_system = result.in_system_s * per_s;
  s.transferred_bytes = result.transferred_bytes;
  s.transfer_wait_s = result.transfer_wait_s;
  s.fetched_bytes = result.fetched_bytes;
  return s;
}

std::vector<Figure> figures(const Summary& s) {
  std::vector<Figure> all = {{"requests", static_cast<double>(s.requests)},
                             {"refused", static_cast<double>(s.refused)},
                             {"span_s", s.span_s},
                             {"request_rate_per_s", s.request_rate},
                             {"input_tokens_per_s", s.input_token_rate},
                             {"output_tokens_per_s", s.output_token_rate}};
  const auto add = [&](const std::string& name, const Statistic& statistic) {
    const std::pair<const char*, double> parts[] = {{"mean", statistic.mean}, {"p50", statistic.p50},
                                                    {"p90", statistic.p90},   {"p95", statistic.p95},
                                                    {"p99", statistic.p99},   {"max", statistic.most}};
    for (const auto& [part, value] : parts)
      all.push_back({name + "_" + part + "_ms", statistic.count > 0 ? value * 1e3 : std::nan("")});
  };
  add("ttft", s.ttft_s);
  add("tpot", s.tpot_s);
  add("itl", s.itl_s);
  add("e2e", s.e2e_s);
  const std::vector<Figure> rest = {{"slo_attainment", s.attained},
                                    {"goodput_requests_per_s", s.goodput},
                                    {"prefix_hit_rate", s.prefix_hit},
                                    {"tier_hit_rate", s.fetched},
                                    {"utilisation", s.utilisation},
                                    {"kv_usage_mean", s.kv_usage},
                                    {"kv_usage_peak", s.kv_peak},
                                    {"preemptions", static_cast<double>(s.preemptions)},
                                    {"in_system_mean", s.mean_in_system},
                                    {"steps", static_cast<double>(s.steps)},
                                    {"transferred_bytes", s.transferred_bytes},
                                    {"transfer_wait_s", s.transfer_wait_s},
                                    {"fetched_bytes", s.fetched_bytes},
                                    {"saturated", s.saturated ? 1.0 : 0.0}};
  all.insert(all.end(), rest.begin(), rest.end());
  return all;
}

std::vector<Spread> over_seeds(const std::vector<Summary>& summaries) {
  std::vector<Spread> spreads;
  const std::size_t n = summaries.size();
  for (const Figure& figure : figures(summaries.front())) spreads.push_back({figure.name, 0, 0});
  std::vector<double> squares(spreads.size(), 0);
  for (const Summary& summary : summaries) {
    const std::vector<Figure> all = figures(summary);
    for (std::size_t i = 0; i < all.size(); ++i) spreads[i].mean += all[i].value / static_cast<double>(n);
  }
  for (const Summary& summary : summaries) {
    const std::vector<Figure> all = figures(summary);
    for (std::size_t i = 0; i < all.size(); ++i) squares[i] += std::pow(all[i].value - spreads[i].mean, 2);
  }
  if (n < 2) return spreads;
  const double t = n - 2 < std::size(kStudent) ? kStudent[n - 2] : kNormal;
  for (std::size_t i = 0; i < spreads.size(); ++i) {
    spreads[i].half_width = t * std::sqrt(squares[i] / static_cast<double>(n - 1) / static_cast<double>(n));
  }
  return spreads;
}

double chance_of(std::int64_t failures, std::int64_t n, double share) {
  if (failures >= n) return 1;
  double chance = 0;
  for (std::int64_t k = 0; k <= failures; ++k) {
    chance += std::exp(log_choose(n, k) + static_cast<double>(k) * std::log1p(-share) +
                       static_cast<double>(n - k) * std::log(share));
  }
  return std::min(chance, 1.0);
}

std::int64_t samples_needed(double share) {
  std::int64_t low = 1, high = 2;
  while (chance_of(1, high, share) > 0.01 && high < (std::int64_t{1} << 40)) high *= 2;
  while (low + 1 < high) {
    const std::int64_t middle = low + (high - low) / 2;
    (chance_of(1, middle, share) > 0.01 ? low : high) = middle;
  }
  return high;
}

nlohmann::ordered_json to_json(const Summary& summary) {
  nlohmann::ordered_json json;
  for (const Figure& figure : figures(summary))
    json[figure.name] = std::isnan(figure.value) ? nlohmann::ordered_json() : nlohmann::ordered_json(figure.value);
  json["saturated"] = summary.saturated;
  return json;
}

}  // namespace weir::plan::sim
