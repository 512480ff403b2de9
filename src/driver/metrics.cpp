#include "driver/metrics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace weir::driver {
namespace {

// A driver later than this measures itself: 1 ms is a small part of any TTFT worth measuring.
constexpr double kMaxLagP99_s = 1e-3;
constexpr double kMaxLengthOff = 0.1;      // replies this much shorter or longer than asked are other work
constexpr double kMaxClientCpu = 0.5;      // cores
constexpr std::size_t kMinForThirds = 30;  // fewer requests say nothing about a trend
constexpr double kRising = 1.5;            // of TTFT and of requests in flight, from the first third to the last
constexpr double kMostTokensAtOnce = 1 << 16;

std::vector<const RequestRecord*> by_due_time(const RunResult& run) {
  std::vector<const RequestRecord*> records;
  for (const RequestRecord& record : run.records) records.push_back(&record);
  std::stable_sort(records.begin(), records.end(),
                   [](const auto* a, const auto* b) { return a->scheduled_s < b->scheduled_s; });
  return records;
}

int in_flight_at(const RunResult& run, double at_s) {
  return static_cast<int>(std::count_if(run.records.begin(), run.records.end(), [at_s](const RequestRecord& r) {
    return r.scheduled_s <= at_s && r.done_s > at_s;
  }));
}

int peak_in_flight(const RunResult& run) {
  std::vector<std::pair<double, int>> changes;
  for (const RequestRecord& r : run.records) {
    changes.emplace_back(r.scheduled_s, 1);
    changes.emplace_back(r.done_s, -1);
  }
  std::sort(changes.begin(), changes.end());
  int now = 0, peak = 0;
  for (const auto& [at, change] : changes) peak = std::max(peak, now += change);
  return peak;
}

Saturation find_saturation(const RunResult& run) {
  Saturation out;
  const auto records = by_due_time(run);
  if (records.size() < kMinForThirds) return out;
  for (std::size_t third = 0; third < 3; ++third) {
    const std::size_t begin = records.size() * third / 3, end = records.size() * (third + 1) / 3;
    std::vector<double> ttft;
    for (std::size_t i = begin; i < end; ++i)
      if (records[i]->ok()) ttft.push_back(records[i]->ttft_s());
    std::sort(ttft.begin(), ttft.end());
    out.ttft_p50_s[third] = quantile(ttft, 0.5);
    out.in_flight[third] = in_flight_at(run, records[end - 1]->scheduled_s);
  }
  const auto& t = out.ttft_p50_s;
  const auto& n = out.in_flight;
  out.saturated = t[0] > 0 && t[1] > t[0] && t[2] > t[1] && t[2] > kRising * t[0] && n[1] > n[0] && n[2] > n[1] &&
                  n[2] > kRising * n[0];
  return out;
}

Window find_window(const RunResult& run) {
  Window out;
  double begin_s = run.end_s, end_s = run.start_s;
  for (const RequestRecord& r : run.records) {
    if (r.ok()) begin_s = std::min(begin_s, r.done_s);
    end_s = std::max(end_s, r.scheduled_s);
  }
  out.begin_s = begin_s - run.start_s;
  out.end_s = end_s - run.start_s;
  if (!out.exists()) return out;
  double tokens = 0, requests = 0;
  for (const RequestRecord& r : run.records) {
    for (const TokenArrival& arrival : r.arrivals)
      if (arrival.at_s > begin_s && arrival.at_s <= end_s) tokens += arrival.tokens;
    requests += r.ok() && r.done_s > begin_s && r.done_s <= end_s;
  }
  out.output_tok_s = tokens / (end_s - begin_s);
  out.requests_s = requests / (end_s - begin_s);
  return out;
}

void add_warnings(Summary& s, const RunResult& run, const Workload& workload) {
  const auto warn = [&](std::string text) { s.warnings.push_back(std::move(text)); };
  const auto& spec = workload.spec();
  if (s.lag.p99 > kMaxLagP99_s && run.open_loop_queued == 0) {
    warn(
        fmt::format("the driver was late: p99 lag {:.2f} ms, more than {:.0f} ms. Latencies include it; do not compare "
                    "them with other runs",
                    s.lag.p99 * 1e3, kMaxLagP99_s * 1e3));
  }
  if (run.open_loop_queued > 0) {
    warn(fmt::format("{} requests waited in the driver for --max-concurrency; their latencies include the wait",
                     run.open_loop_queued));
  }
  if (!spec.arrivals.open_loop()) {
    warn("closed loop: a slow server gets fewer requests, so latencies say nothing about a load that does not wait");
  }
  if (s.saturation.saturated) {
    warn(
        fmt::format("no steady state: median TTFT grows from {:.0f} to {:.0f} ms and requests in flight from {} to {}; "
                    "the server cannot keep up, and latencies depend on how long the run was",
                    s.saturation.ttft_p50_s[0] * 1e3, s.saturation.ttft_p50_s[2] * 1e3, s.saturation.in_flight[0],
                    s.saturation.in_flight[2]));
  }
  if (s.client_cpu > kMaxClientCpu) {
    warn(fmt::format("the driver took {:.2f} cores; on a machine shared with the server that is part of the result",
                     s.client_cpu));
  }
  const auto asked = static_cast<double>(s.asked_output_tokens);
  if (s.completed > 0 && std::abs(static_cast<double>(s.output_tokens) - asked) > kMaxLengthOff * asked) {
    warn(fmt::format("replies have {} tokens and {} were asked for: more than {:.0f} % off", s.output_tokens,
                     s.asked_output_tokens, kMaxLengthOff * 100));
  }
  if (s.counted_by.contains("chunks")) {
    warn("the server counts no tokens: chunks were counted, which may hold several tokens each");
  }
  if (s.completed < s.requests) {
    warn(
        fmt::format("{} of {} requests failed; they are in none of the figures", s.requests - s.completed, s.requests));
  }
}

}  // namespace

double quantile(const std::vector<double>& ascending, double q) {
  if (ascending.empty()) return 0;
  const double rank = q * static_cast<double>(ascending.size() - 1);
  const auto below = static_cast<std::size_t>(rank);
  const std::size_t above = std::min(below + 1, ascending.size() - 1);
  return ascending[below] + (rank - static_cast<double>(below)) * (ascending[above] - ascending[below]);
}

Series summarise(std::vector<double> values) {
  Series s;
  s.count = values.size();
  if (values.empty()) return s;
  std::sort(values.begin(), values.end());
  const auto n = static_cast<double>(values.size());
  s.mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  double squares = 0;
  for (const double v : values) squares += (v - s.mean) * (v - s.mean);
  s.deviation = std::sqrt(squares / n);
  s.least = values.front();
  s.most = values.back();
  s.p50 = quantile(values, 0.5);
  s.p90 = quantile(values, 0.9);
  s.p95 = quantile(values, 0.95);
  s.p99 = quantile(values, 0.99);
  s.p999 = quantile(values, 0.999);
  return s;
}

std::size_t samples_needed(double q) {
  return q > 0.99 ? 6636 : q > 0.95 ? 662 : q > 0.9 ? 130 : q > 0.5 ? 64 : 1;
}

bool Slo::met(const RequestRecord& record) const {
  return record.ok() && (!ttft_s || record.ttft_s() <= *ttft_s) && (!tpot_s || record.tpot_s() <= *tpot_s) &&
         (!e2e_s || record.e2e_s() <= *e2e_s);
}

void append_gaps(const RequestRecord& record, std::vector<double>& gaps) {
  for (std::size_t i = 1; i < record.arrivals.size(); ++i) {
    const TokenArrival& arrival = record.arrivals[i];
    const double tokens = std::clamp(std::round(arrival.tokens), 1.0, kMostTokensAtOnce);
    gaps.insert(gaps.end(), static_cast<std::size_t>(tokens), (arrival.at_s - record.arrivals[i - 1].at_s) / tokens);
  }
}

Summary summarise(const RunResult& run, const Workload& workload, const Slo& slo) {
  static constexpr const char* kNames[] = {"usage", "ids", "chunks", "nothing"};
  Summary s;
  std::vector<double> ttft, tpot, itl, e2e, worst, lag;
  double in_flight_s = 0;
  std::size_t good = 0;
  for (const RequestRecord& r : run.records) {
    ++s.requests;
    if (r.sent_s > 0 && !r.queued_in_client) lag.push_back(r.lag_s());
    in_flight_s += r.e2e_s();
    if (!r.ok()) {
      ++s.failures[r.error.substr(0, 120)];
      continue;
    }
    ++s.completed;
    ++s.counted_by[kNames[static_cast<std::size_t>(r.counted_by)]];
    s.prompt_tokens += r.prompt_tokens > 0 ? r.prompt_tokens : r.asked_prompt_tokens;
    s.cached_tokens += r.cached_tokens;
    s.output_tokens += r.output_tokens;
    s.asked_output_tokens += r.asked_output_tokens;
    good += slo.met(r);
    e2e.push_back(r.e2e_s());
    if (r.first_token_s > 0) ttft.push_back(r.ttft_s());
    if (r.output_tokens > 1) tpot.push_back(r.tpot_s());
    double most = 0;
    for (std::size_t i = 1; i < r.arrivals.size(); ++i)
      most = std::max(most, r.arrivals[i].at_s - r.arrivals[i - 1].at_s);
    if (r.arrivals.size() > 1) worst.push_back(most);
    append_gaps(r, itl);
  }
  s.duration_s = run.end_s - run.start_s;
  const double duration_s = std::max(s.duration_s, 1e-9);
  s.request_s = static_cast<double>(s.completed) / duration_s;
  s.output_tok_s = static_cast<double>(s.output_tokens) / duration_s;
  s.total_tok_s = static_cast<double>(s.output_tokens + s.prompt_tokens) / duration_s;
  s.mean_in_flight = in_flight_s / duration_s;
  s.goodput_s = slo.any() ? static_cast<double>(good) / duration_s : 0;
  s.client_cpu = run.client_cpu_s / duration_s;
  const auto& planned = workload.requests();
  if (workload.spec().arrivals.open_loop() && planned.size() > 1 && planned.back().at_s > 0)
    s.offered_rate = static_cast<double>(planned.size()) / planned.back().at_s;
  s.ttft = summarise(std::move(ttft));
  s.tpot = summarise(std::move(tpot));
  s.itl = summarise(std::move(itl));
  s.e2e = summarise(std::move(e2e));
  s.worst_gap = summarise(std::move(worst));
  s.lag = summarise(std::move(lag));
  s.peak_in_flight = peak_in_flight(run);
  s.window = find_window(run);
  if (workload.spec().arrivals.open_loop()) s.saturation = find_saturation(run);
  add_warnings(s, run, workload);
  return s;
}

}  // namespace weir::driver
