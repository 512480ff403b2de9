#include "plan/speculation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace weir::plan {
namespace {

using testing::HasSubstr;

TEST(Speculation, TokensPerPassAreTheGeometricSum) {
  for (const double a : {0.0, 0.3, 0.7, 0.95}) {
    for (const int k : {0, 1, 3, 8})
      EXPECT_NEAR(tokens_per_pass({a}, k), (1 - std::pow(a, k + 1)) / (1 - a), 1e-12) << a << " " << k;
  }
  EXPECT_EQ(tokens_per_pass({1.0}, 5), 6);
  EXPECT_NEAR(tokens_per_pass({0.8, 0.5}, 3), 1 + 0.8 + 0.4 + 0.2, 1e-12);
}

// Against chance itself: drafts are accepted one after the other until one is not.
TEST(Speculation, TokensPerPassAreTheMeanOfDraws) {
  const std::vector<double> acceptance = {0.9, 0.6, 0.4};
  std::uint64_t state = 12345;
  double tokens = 0;
  constexpr int kDraws = 200000;
  for (int i = 0; i < kDraws; ++i) {
    tokens += 1;
    for (const double a : acceptance) {
      state = state * 6364136223846793005ULL + 1442695040888963407ULL;
      if (static_cast<double>(state >> 11) / 9007199254740992.0 >= a) break;
      tokens += 1;
    }
  }
  EXPECT_NEAR(tokens / kDraws, tokens_per_pass(acceptance, 3), 0.01);
}

SpeculationCosts linear(double fixed, double per_row, double draft) {
  return {.pass_s = [=](std::int64_t rows) { return fixed + per_row * static_cast<double>(rows); },
          .draft_s = [=](int drafts) { return draft * drafts; }};
}

TEST(Speculation, TheBestDraftIsWhereTheNextNoLongerPays) {
  const std::vector<double> acceptance = {0.8};
  const auto costs = linear(1.0, 0.05, 0.02);
  const auto choices = draft_choices(acceptance, costs, 30);
  const DraftChoice best = best_draft(choices);
  EXPECT_GT(best.drafts, 1);
  const auto cost = [&](int k) { return costs.pass_s(k + 1) + costs.draft_s(k); };
  const double next = std::pow(0.8, best.drafts + 1), last = std::pow(0.8, best.drafts);
  EXPECT_LE(next / best.tokens, cost(best.drafts + 1) / cost(best.drafts) - 1);
  EXPECT_GE(last / choices[static_cast<std::size_t>(best.drafts) - 1].tokens,
            cost(best.drafts) / cost(best.drafts - 1) - 1);
  // Where rows cost what tokens are worth, none pays.
  EXPECT_EQ(best_draft(draft_choices(acceptance, linear(0, 1, 0), 8)).drafts, 0);
  // Where they are free, all do.
  EXPECT_EQ(best_draft(draft_choices(acceptance, linear(1, 0, 0), 8)).drafts, 8);
}

TEST(Speculation, OneDraftPaysAboveTheBreakEven) {
  const auto costs = linear(1.0, 0.3, 0.1);
  const double least = break_even_acceptance(costs);
  EXPECT_LT(draft_choices({least - 0.01}, costs, 1)[1].speed_up, 1);
  EXPECT_GT(draft_choices({least + 0.01}, costs, 1)[1].speed_up, 1);
}

TEST(Speculation, ItPaysAtSmallBatchesAndNotAtLargeOnes) {
  const auto report = spec_report({.subject = {.model = "Llama-3.3-70B", .hardware = "H100", .layout = {.tp = 4}},
                                   .draft = "Llama-3.2-1B",
                                   .acceptance = {0.7},
                                   .batches = {1, 16, 1024},
                                   .context = 1024});
  ASSERT_TRUE(report.has_value()) << report.error().message;
  const auto& batches = report->json["batches"];
  EXPECT_GT(batches[0]["best_speed_up"].get<double>(), 1.8);
  EXPECT_GE(batches[0]["best_drafts"].get<int>(), batches[2]["best_drafts"].get<int>());
  EXPECT_LT(batches[2]["best_speed_up"].get<double>(), batches[0]["best_speed_up"].get<double>());
}

TEST(Speculation, MeasuredPassesReplaceTheRoofline) {
  const auto times = parse_pass_times("1:10,11:20,21:40");
  ASSERT_TRUE(times.has_value());
  EXPECT_NEAR(times->seconds(1), 0.010, 1e-12);
  EXPECT_NEAR(times->seconds(6), 0.015, 1e-12);
  EXPECT_NEAR(times->seconds(16), 0.030, 1e-12);
  EXPECT_NEAR(times->seconds(31), 0.060, 1e-12);
  EXPECT_NEAR(times->seconds(0.5), 0.010, 1e-12);
  const auto report =
      spec_report({.draft_share = 0.1, .pass_times = "1:10,4:10,64:100", .acceptance = {0.8, 0.6}, .batches = {1, 32}});
  ASSERT_TRUE(report.has_value()) << report.error().message;
  EXPECT_EQ(report->json["batches"][0]["pass_s"], 0.01);
  for (const char* text :
       {"1:10", "1:10,1:20", "2:10,1:20", "a:1,2:3", "1:0,2:3", "1:10,2", "1:10,2:nan", ":,", "0:1,2:3"})
    EXPECT_FALSE(parse_pass_times(text).has_value()) << text;
}

TEST(Speculation, BadQueriesAreRefused) {
  const SubjectQuery subject{.model = "Qwen3-8B", .hardware = "H100"};
  for (const SpecQuery& query :
       {SpecQuery{.subject = subject, .acceptance = {}}, SpecQuery{.subject = subject, .acceptance = {1.5}},
        SpecQuery{.subject = subject, .batches = {0}}, SpecQuery{.subject = subject, .most_drafts = 0},
        SpecQuery{.subject = {.model = "Qwen3-8B"}}, SpecQuery{.subject = subject, .draft = "no such model"},
        SpecQuery{.subject = subject, .draft_share = -1}, SpecQuery{.pass_times = "1:1"}}) {
    EXPECT_FALSE(spec_report(query).has_value());
  }
}

TEST(Speculation, RefusalsNameWhatIsWrong) {
  const auto none = spec_report({});
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().message.find("--pass-ms"), std::string::npos) << none.error().message;
  SpecQuery query;
  query.acceptance = {0.8, 1.5};
  const auto much = spec_report(query);
  ASSERT_FALSE(much);
  EXPECT_NE(much.error().message.find("draft 2 is 1.5"), std::string::npos) << much.error().message;
}

}  // namespace
}  // namespace weir::plan
