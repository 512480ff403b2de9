#include "driver/metrics.h"

#include <gtest/gtest.h>

namespace weir::driver {
namespace {

// Due at `due`, tokens at the times given.
RequestRecord record(double due, std::vector<TokenArrival> arrivals) {
  RequestRecord r;
  r.scheduled_s = due;
  r.sent_s = due;
  r.status = 200;
  r.counted_by = CountedBy::kUsage;
  for (const auto& a : arrivals) r.output_tokens += static_cast<std::int64_t>(a.tokens);
  r.asked_output_tokens = r.output_tokens;
  r.first_byte_s = r.first_token_s = arrivals.front().at_s;
  r.last_token_s = r.done_s = arrivals.back().at_s;
  r.arrivals = std::move(arrivals);
  return r;
}

RunResult run_of(std::vector<RequestRecord> records) {
  RunResult run;
  run.records = std::move(records);
  run.start_s = 100;
  for (std::size_t i = 0; i < run.records.size(); ++i) {
    run.records[i].index = i;
    run.end_s = std::max(run.end_s, run.records[i].done_s);
  }
  return run;
}

Workload workload_of(std::size_t requests, const char* arrivals = "poisson:1") {
  WorkloadSpec spec;
  spec.requests = requests;
  spec.arrivals = *traffic::parse_arrivals(arrivals);
  return *Workload::draw(spec);
}

TEST(Metrics, of_a_hand_made_timeline) {
  // Due at 100, first token at 100.5, then 0.1 a token: TTFT 500 ms, TPOT 100 ms, E2E 800 ms.
  const auto run = run_of({record(100, {{100.5, 1}, {100.6, 1}, {100.7, 1}, {100.8, 1}})});
  const Summary s = summarise(run, workload_of(1), {});
  EXPECT_NEAR(s.ttft.mean, 0.5, 1e-9);
  EXPECT_NEAR(s.tpot.mean, 0.1, 1e-9);
  EXPECT_NEAR(s.e2e.mean, 0.8, 1e-9);
  EXPECT_EQ(s.itl.count, 3u);
  EXPECT_NEAR(s.output_tok_s, 4 / 0.8, 1e-9);
}

TEST(Metrics, run_from_the_due_time_and_not_from_the_sending) {
  auto late = record(100, {{103, 1}});
  late.sent_s = 102.9;
  const Summary s = summarise(run_of({late}), workload_of(1), {});
  EXPECT_NEAR(s.ttft.mean, 3, 1e-9);
  EXPECT_NEAR(s.lag.most, 2.9, 1e-9);
  ASSERT_FALSE(s.warnings.empty());
  EXPECT_NE(s.warnings[0].find("late"), std::string::npos);
}

TEST(Metrics, several_tokens_at_once_share_the_gap_before_them) {
  // Two streams of the same pace, one in chunks of four.
  std::vector<TokenArrival> single, chunks;
  for (int i = 0; i <= 8; ++i) single.push_back({100 + 0.1 * i, 1});
  chunks = {{100, 1}, {100.4, 4}, {100.8, 4}};
  const Summary a = summarise(run_of({record(100, single)}), workload_of(1), {});
  const Summary b = summarise(run_of({record(100, chunks)}), workload_of(1), {});
  EXPECT_NEAR(a.tpot.mean, b.tpot.mean, 1e-9);
  EXPECT_EQ(a.itl.count, b.itl.count);
  EXPECT_NEAR(a.itl.mean, b.itl.mean, 1e-9);
  EXPECT_NEAR(b.worst_gap.most, 0.4, 1e-9);  // what a reader waits is not hidden
}

TEST(Metrics, tpot_weighs_requests_alike_and_itl_tokens) {
  std::vector<TokenArrival> fast, slow = {{100, 1}, {101, 1}};
  for (int i = 0; i <= 99; ++i) fast.push_back({100 + 0.01 * i, 1});
  const Summary s = summarise(run_of({record(100, fast), record(100, slow)}), workload_of(2), {});
  EXPECT_NEAR(s.tpot.mean, (0.01 + 1) / 2, 1e-6);
  EXPECT_NEAR(s.itl.mean, (99 * 0.01 + 1) / 100, 1e-6);
  EXPECT_NEAR(s.itl.most, 1, 1e-9);
}

TEST(Metrics, a_reply_of_one_token_has_no_tpot_and_meets_every_limit_on_it) {
  const auto one = record(100, {{100.2, 1}});
  const Summary s = summarise(run_of({one}), workload_of(1), {.tpot_s = 1e-9});
  EXPECT_EQ(s.tpot.count, 0u);
  EXPECT_NEAR(s.goodput_s, 1 / 0.2, 1e-6);
}

TEST(Metrics, goodput_counts_requests_that_keep_all_limits) {
  const auto good = record(100, {{100.1, 1}, {100.2, 1}}), slow_start = record(100, {{100.5, 1}, {100.6, 1}}),
             slow_tokens = record(100, {{100.1, 1}, {101, 1}});
  const Summary s = summarise(run_of({good, slow_start, slow_tokens}), workload_of(3), {.ttft_s = 0.2, .tpot_s = 0.2});
  EXPECT_NEAR(s.goodput_s, 1 / s.duration_s, 1e-9);
}

TEST(Metrics, failures_are_counted_and_in_no_figure) {
  auto failed = record(100, {{190, 1}});
  failed.error = "HTTP 500";
  const auto good = record(100, {{100.1, 1}, {100.2, 1}});
  const Summary s = summarise(run_of({good, failed}), workload_of(2), {});
  EXPECT_EQ(s.completed, 1u);
  EXPECT_EQ(s.failures.at("HTTP 500"), 1u);
  EXPECT_NEAR(s.ttft.most, 0.1, 1e-9);
}

TEST(Percentiles, interpolate_between_ranks) {
  std::vector<double> values;
  for (int i = 100; i >= 0; --i) values.push_back(i);
  const Series s = summarise(values);
  EXPECT_DOUBLE_EQ(s.p50, 50);
  EXPECT_DOUBLE_EQ(s.p99, 99);
  EXPECT_DOUBLE_EQ(s.p999, 99.9);
  EXPECT_DOUBLE_EQ(quantile({1, 2}, 0.5), 1.5);
  EXPECT_DOUBLE_EQ(quantile({}, 0.5), 0);
  EXPECT_DOUBLE_EQ(quantile({3}, 0.99), 3);
}

TEST(Percentiles, of_too_few_values_are_marked) {
  EXPECT_EQ(samples_needed(0.9), 64u);
  EXPECT_EQ(samples_needed(0.95), 130u);
  EXPECT_EQ(samples_needed(0.99), 662u);
  EXPECT_EQ(samples_needed(0.999), 6636u);
  const auto few = [](std::size_t n) {
    std::vector<RequestRecord> records(n, record(100, {{100.1, 1}, {100.2, 1}}));
    const auto workload = workload_of(n);
    return to_json(summarise(run_of(std::move(records)), workload, {}), workload, {})["ttft_ms"]["too_few_samples_for"]
        .dump();
  };
  EXPECT_EQ(few(63), "[\"p90\",\"p95\",\"p99\",\"p99.9\"]");
  EXPECT_EQ(few(130), "[\"p99\",\"p99.9\"]");
  EXPECT_EQ(few(662), "[\"p99.9\"]");
}

TEST(Steady, window_leaves_out_the_ramp_and_the_drain) {
  // One request a second, each two seconds long with a token at its end: after the first end and before the last
  // start, one token a second.
  std::vector<RequestRecord> records;
  for (int i = 0; i < 10; ++i) records.push_back(record(100 + i, {{102.0 + i, 1}}));
  const Summary s = summarise(run_of(std::move(records)), workload_of(10), {});
  EXPECT_NEAR(s.window.begin_s, 2, 1e-9);
  EXPECT_NEAR(s.window.end_s, 9, 1e-9);
  EXPECT_NEAR(s.window.output_tok_s, 1, 1e-9);
  EXPECT_NEAR(s.output_tok_s, 10 / 11.0, 1e-9);
}

TEST(Saturation, is_seen_where_waiting_grows_and_not_where_it_does_not) {
  std::vector<RequestRecord> growing, steady;
  for (int i = 0; i < 60; ++i) {
    growing.push_back(record(100 + i, {{101 + 2.0 * i, 1}}));  // served at half the rate
    steady.push_back(record(100 + i, {{101.5 + i, 1}}));
  }
  const Summary bad = summarise(run_of(growing), workload_of(60), {}),
                good = summarise(run_of(steady), workload_of(60), {});
  EXPECT_TRUE(bad.saturation.saturated);
  EXPECT_FALSE(good.saturation.saturated);
  ASSERT_FALSE(bad.warnings.empty());
  EXPECT_NE(bad.warnings[0].find("no steady state"), std::string::npos);
  EXPECT_TRUE(good.warnings.empty()) << good.warnings[0];
}

TEST(Warnings, name_closed_loops_short_replies_and_counted_chunks) {
  auto r = record(100, {{100.1, 1}, {100.2, 1}});
  r.asked_output_tokens = 10;
  r.counted_by = CountedBy::kChunks;
  const Summary s = summarise(run_of({r}), workload_of(1, "closed:4"), {});
  std::string all;
  for (const auto& w : s.warnings) all += w + "\n";
  for (const char* word : {"closed loop", "asked for", "chunks"}) EXPECT_NE(all.find(word), std::string::npos) << all;
}

TEST(Concurrency, follows_from_the_records) {
  const auto run = run_of({record(100, {{104, 1}}), record(101, {{103, 1}}), record(103, {{104, 1}})});
  const Summary s = summarise(run, workload_of(3), {});
  EXPECT_EQ(s.peak_in_flight, 2);  // an end and a start at the same time are not beside each other
  EXPECT_NEAR(s.mean_in_flight, (4 + 2 + 1) / 4.0, 1e-9);
}

}  // namespace
}  // namespace weir::driver
