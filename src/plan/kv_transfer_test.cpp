#include "plan/kv_transfer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/memory.h"
#include "plan/roofline.h"

namespace weir::plan {
namespace {

using testing::HasSubstr;

// Published: 6 GB/s on eight A800, 19 GB/s on eight H800 for Llama 3 70B and a prefix of 8192 tokens (Mooncake,
// FAST'25).
TEST(KvTransfer, BreakEvenBandwidthsAreMooncakes) {
  const auto card = *read_model_card("Llama-3-70B");
  for (const auto& [name, published] : {std::pair{"A800", 6.0}, std::pair{"H800", 19.0}}) {
    const auto hardware = *find_hardware(name);
    EXPECT_NEAR(mooncake_bandwidth_gbs(8192, 8, 8192, 8 * hardware.bf16_tflops * 1e12, 2) / published, 1, 0.05) << name;
    // Counted by operators, causal attention at half of what the formula takes.
    const RecomputeModel model{card, hardware, {.layout = {.tp = 8}, .types = card.types}};
    EXPECT_NEAR(reuse_bandwidth_gbs(model, 8192) / published, 1, 0.15) << name;
  }
}

TEST(KvTransfer, FortyGigabytesOverFiftyTakeEightTenthsOfASecond) {
  const KvLink link{.name = "RDMA", .gbs = 50};
  EXPECT_NEAR(transfer_s(link, 40e9, 5e6), 0.8, 1e-9);
  // Hidden but for its last layer when computing takes as long; shown in full when nothing is computed.
  EXPECT_NEAR(exposed_s(0.8, 0.8, 80), 0.01, 1e-9);
  EXPECT_NEAR(exposed_s(0.8, 2.0, 80), 0.01, 1e-9);
  EXPECT_NEAR(exposed_s(0.8, 0, 80), 0.8, 1e-9);
  EXPECT_NEAR(exposed_s(0.8, 0.4, 80), 0.4 + 0.4 / 80, 1e-9);
}

TEST(KvTransfer, SmallOperationsWasteALink) {
  const KvLink link{.name = "l", .gbs = 10, .latency_us = 100, .depth = 1};
  EXPECT_NEAR(link_efficiency(link, 1e6), 0.5, 1e-9);
  EXPECT_LT(link_efficiency(link, 1e3), 0.01);
  const KvLink deep{.name = "l", .gbs = 10, .latency_us = 100, .depth = 4};
  EXPECT_EQ(link_efficiency(deep, 1e6), 1);
  EXPECT_EQ(link_efficiency(deep, 0), 0);
}

TEST(KvTransfer, TheCrossoverIsWhereTheVerdictChanges) {
  const auto card = *read_model_card("Llama-3-70B");
  const auto hardware = *find_hardware("H800");
  const RecomputeModel model{card, hardware, {.layout = {.tp = 8}, .types = card.types}};
  const CrossoverQuery query{.suffix = 512, .most = 131072};
  const auto total = [&](const KvLink& link, std::int64_t prefix) {
    const double bytes = sequence_kv_bytes(card, 16, prefix);
    return model.prefill_s(prefix, 512) + transfer_s(link, bytes, 16 * 327680.0 / 8) - model.prefill_s(0, prefix + 512);
  };
  const KvLink slow{.name = "slow", .gbs = 10, .latency_us = 1000, .depth = 64};
  const auto from = crossover_prefix(model, slow, query);
  ASSERT_TRUE(from.has_value());
  EXPECT_GT(from->from, 16);
  EXPECT_LT(total(slow, from->from), 0);
  EXPECT_GE(total(slow, from->from - 1), 0);
  const auto fast = crossover_prefix(model, {.name = "fast", .gbs = 50}, query);
  ASSERT_TRUE(fast.has_value());
  EXPECT_EQ(fast->from, 16);
  EXPECT_FALSE(fast->to.has_value());
  EXPECT_FALSE(crossover_prefix(model, {.name = "wet string", .gbs = 0.1}, query).has_value());
  // Beside computing, a slower link does.
  CrossoverQuery layered = query;
  layered.layerwise = true;
  layered.suffix = 8192;
  const auto beside = crossover_prefix(model, slow, layered);
  ASSERT_TRUE(beside.has_value());
  EXPECT_LE(beside->from, from->from);
  // 512 tokens hide the transfer of a short prefix on a slow link, not that of a long one.
  layered.suffix = 512;
  const auto short_ones = crossover_prefix(model, {.name = "narrow", .gbs = 2}, layered);
  ASSERT_TRUE(short_ones.has_value());
  EXPECT_TRUE(short_ones->to.has_value());
}

TEST(KvTransfer, TheReportKnowsWhatHidesATransfer) {
  const auto report =
      kv_report({.subject = {.model = "Llama-3.3-70B", .hardware = "H800", .layout = {.tp = 8}}, .kv_gb = 20});
  ASSERT_TRUE(report.has_value()) << report.error().message;
  EXPECT_NEAR(report->json["kv_bytes"].get<double>(), 20e9, 327680);
  for (const auto& link : report->json["links"]) {
    if (link["name"] != "RDMA") continue;
    EXPECT_NEAR(link["transfer_s"].get<double>(), 0.4, 0.01);
    const auto hiding = link["hidden_by_suffix_tokens"].get<std::int64_t>();
    const auto card = *read_model_card("Llama-3.3-70B");
    const auto hardware = *find_hardware("H800");
    const RecomputeModel model{card, hardware, {.layout = {.tp = 8}, .types = card.types}};
    EXPECT_GE(model.prefill_s(report->json["prefix"], hiding), link["layerwise_transfer_s"].get<double>());
    EXPECT_LT(model.prefill_s(report->json["prefix"], hiding - 1), link["layerwise_transfer_s"].get<double>());
  }
}

TEST(KvTransfer, SaysFromWhichSuffixATransferIsHiddenBeyondTheContextToo) {
  const auto report =
      kv_report({.subject = {.model = "Llama-3.3-70B", .hardware = "H800", .layout = {.tp = 8}}, .kv_gb = 40});
  ASSERT_TRUE(report.has_value()) << report.error().message;
  for (const auto& link : report->json["links"]) {
    if (link["name"] != "RDMA") continue;
    EXPECT_NEAR(link["transfer_s"].get<double>(), 0.8, 0.01);
    EXPECT_GT(link["hidden_by_suffix_tokens"].get<std::int64_t>() + report->json["prefix"].get<std::int64_t>(), 131072);
    EXPECT_FALSE(link["hiding_suffix_is_within_context"].get<bool>());
    EXPECT_TRUE(link["hidden_behind_its_own_prefill"].get<bool>());
  }
  EXPECT_NE(report->text.find("(beyond the context of 131072)"), std::string::npos) << report->text;
}

TEST(KvTransfer, LinksAreGivenByHandAndBadOnesRefused) {
  const auto standard = standard_links(*find_hardware("H100"), 8);
  EXPECT_EQ(parse_link("RDMA,gbs=25", standard)->gbs, 25);
  EXPECT_EQ(parse_link("mine,gbs=1.5,latency_us=3,depth=2", standard)->depth, 2);
  EXPECT_EQ(parse_link("odd\xff\x1b,gbs=1", standard)->name, "odd\\xff\\x1b");
  for (const char* text :
       {"", "mine", "mine,gbs=0", "mine,gbs=nan", "mine,speed=3", "mine,gbs", "mine,gbs=1,depth=0", "mine,gbs=-1"})
    EXPECT_FALSE(parse_link(text, standard).has_value()) << text;
  for (const KvQuery& query : {KvQuery{.subject = {.model = "Qwen3-8B"}},
                               KvQuery{.subject = {.model = "Qwen3-8B", .hardware = "H100"}, .prefix = 0},
                               KvQuery{.subject = {.model = "Qwen3-8B", .hardware = "H100"}, .share = 0},
                               KvQuery{.subject = {.model = "Qwen3-8B", .hardware = "H100"}, .kv_gb = -1}})
    EXPECT_FALSE(kv_report(query).has_value());
}

}  // namespace
}  // namespace weir::plan
