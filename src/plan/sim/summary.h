// What a simulation found, as figures: latencies and their percentiles, goodput under promises, hit rates, use.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "plan/sim/simulator.h"

namespace weir::plan::sim {

// What is promised to a request; `share` of them must get all of it.
struct Slo {
  std::optional<double> ttft_s, tpot_s, e2e_s;
  double share = 0.99;
  bool any() const { return ttft_s || tpot_s || e2e_s; }
  bool met_by(const RequestResult& request) const;
};

struct Statistic {
  std::int64_t count = 0;
  double mean = 0, p50 = 0, p90 = 0, p95 = 0, p99 = 0, most = 0;
};
Statistic statistic_of(std::vector<double> values);

struct Summary {
  std::int64_t requests = 0, refused = 0;
  double span_s = 0;                       // from the first request sent to the last token
  double sent_s = 0;                       // from the first to the last request sent
  Statistic ttft_s, tpot_s, itl_s, e2e_s;  // tpot: of requests with two tokens and more
  double request_rate = 0, input_token_rate = 0, output_token_rate = 0;  // done, per second of the span
  double attained = 0;    // share of requests that got what was promised; refused ones did not
  double goodput = 0;     // of those, per second
  double prefix_hit = 0;  // share of prompt tokens found in pools
  double fetched = 0;     // share of prompt tokens fetched from tiers
  double utilisation = 0, kv_usage = 0, kv_peak = 0;  // of instances: busy time, blocks in use while busy
  std::int64_t preemptions = 0, steps = 0;
  double mean_in_system = 0;
  bool saturated = false;  // more comes than can be done: waiting grew to the end
  double transferred_bytes = 0, transfer_wait_s = 0, fetched_bytes = 0;
};

Summary summarise(const SimResult& result, const Slo& slo);

// A figure of a summary; the name ends with its unit where it has one.
struct Figure {
  std::string name;
  double value = 0;  // NaN: there is none, such as the TPOT of replies of one token; null as JSON
};
std::vector<Figure> figures(const Summary& summary);

// Figures over several seeds: mean, and the half-width of a 95 % interval for it (Student's t).
struct Spread {
  std::string name;
  double mean = 0, half_width = 0;
};
std::vector<Spread> over_seeds(const std::vector<Summary>& summaries);

// MLPerf's rule of early stopping (inference policies, LoadGen): the chance of seeing at most so many failures of n
// although the share that succeeds is only `share`. A claim needs 1 % or less.
double chance_of(std::int64_t failures, std::int64_t n, double share);
// The fewest requests from which anything can be claimed: one may fail. p90 64, p95 130, p99 662, p99.9 6636.
std::int64_t samples_needed(double share);

nlohmann::ordered_json to_json(const Summary& summary);

}  // namespace weir::plan::sim
