// Metrics: what a run's records say. Pure functions of the records.
//
//   TTFT   first token - due time
//   TPOT   (last token - first token) / (tokens - 1), of a request; requests weigh alike; replies of one token have
//   none ITL    gaps between tokens, of all requests together: tokens weigh alike. What comes together shares the gap
//   before
//          it, so that a server that sends several tokens at once does not look slower or faster than it is.
//   E2E    the whole answer - due time
// A request counts where it did not fail; failures are counted beside. Percentiles are of all requests of the run,
// interpolated between ranks, and never averaged over runs.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "driver/driver.h"
#include "driver/record.h"

namespace weir::driver {

struct Series {
  std::size_t count = 0;
  double mean = 0, deviation = 0, least = 0, p50 = 0, p90 = 0, p95 = 0, p99 = 0, p999 = 0, most = 0;
};
Series summarise(std::vector<double> values);
// Of ascending values, `q` in [0, 1]; 0 of nothing.
double quantile(const std::vector<double>& ascending, double q);

// The fewest values from which a percentile may be claimed: MLPerf's early stopping at 99 % confidence and no
// tolerance. p90: 64, p95: 130, p99: 662, p99.9: 6636. 1 for the median.
std::size_t samples_needed(double q);

// Limits in seconds; all that are given must hold.
struct Slo {
  std::optional<double> ttft_s, tpot_s, e2e_s;
  bool any() const { return ttft_s || tpot_s || e2e_s; }
  bool met(const RequestRecord& record) const;
};

// Between the first whole answer (before it the server fills) and the last request's due time (after it it empties).
struct Window {
  double begin_s = 0, end_s = 0;  // from the run's start
  double output_tok_s = 0, requests_s = 0;
  bool exists() const { return end_s > begin_s; }
};

// Whether an open-loop run had a steady state: by thirds of the requests in order of due time.
struct Saturation {
  bool saturated = false;
  double ttft_p50_s[3] = {};
  int in_flight[3] = {};  // when the last request of the third was due
};

struct Summary {
  std::size_t requests = 0, completed = 0;
  std::map<std::string, std::size_t> failures;  // by what happened
  double duration_s = 0, offered_rate = 0;      // from the start to the last answer; requests a second by the schedule
  std::int64_t prompt_tokens = 0, cached_tokens = 0, output_tokens = 0, asked_output_tokens = 0;
  std::map<std::string, std::size_t> counted_by;
  double request_s = 0, output_tok_s = 0, total_tok_s = 0, mean_in_flight = 0;
  int peak_in_flight = 0;
  double goodput_s = 0;  // requests a second that met the SLO
  Series ttft, tpot, itl, e2e;
  Series worst_gap;  // of each request
  Series lag;
  double client_cpu = 0;  // cores
  Window window;
  Saturation saturation;
  std::vector<std::string> warnings;  // what makes the figures mean less than they seem to
};

Summary summarise(const RunResult& run, const Workload& workload, const Slo& slo);

std::string to_text(const Summary& summary, const Workload& workload, const Slo& slo);
nlohmann::ordered_json to_json(const Summary& summary, const Workload& workload, const Slo& slo);
nlohmann::ordered_json to_json(const RequestRecord& record, double start_s);

// The gaps between tokens; what came together shares the gap before it.
void append_gaps(const RequestRecord& record, std::vector<double>& gaps);

}  // namespace weir::driver
