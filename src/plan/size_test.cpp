#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/memory.h"
#include "plan/roofline.h"
#include "plan/size_report.h"

namespace weir::plan {
namespace {

using testing::HasSubstr;

ModelCard card(const std::string& name) {
  auto found = read_model_card(name);
  EXPECT_TRUE(found.has_value()) << (found ? "" : found.error().message);
  return *found;
}

Hardware device(const std::string& name) {
  auto found = find_hardware(name);
  EXPECT_TRUE(found.has_value()) << (found ? "" : found.error().message);
  return *found;
}

Result<MemoryUse> use(const ModelCard& model, const std::string& hardware, ParallelLayout layout = {},
                      std::int64_t step_tokens = 8192) {
  return memory_use(model, device(hardware), {.layout = layout, .types = model.types, .step_tokens = step_tokens});
}

// Figures of the models' own reports and of everyone's hand calculations.
TEST(Size, KvPerTokenIsKeysAndValuesOnce) {
  const struct {
    const char* name;
    double bytes;
  } expected[] = {{"Llama-3.3-70B", 327680}, {"Llama-3.1-8B", 131072}, {"Qwen3-32B", 262144},
                  {"DeepSeek-V3", 70272},    {"SmolLM2-135M", 23040},  {"Gemma-3-270M", 18432},
                  {"gpt-oss-120b", 73728},   {"Llama-2-7B", 524288},   {"Kimi-K2", 70272}};
  for (const auto& one : expected) EXPECT_EQ(kv_cost(card(one.name), 16).per_token(), one.bytes) << one.name;
  EXPECT_EQ(kv_cost(card("Llama-3.3-70B"), 8).per_token(), 163840);
  const KvCost sparse = kv_cost(card("DeepSeek-V3.2"), 16);
  EXPECT_EQ(sparse.latent, 70272);
  EXPECT_EQ(sparse.indexer, 61 * 128 * 2);
  const KvCost windows = kv_cost(card("gpt-oss-120b"), 16);
  EXPECT_EQ(windows.per_token_beyond_windows(), 36864);
  // 12 of 48 layers attend; the others keep 32 heads of 128 x 128 and three inputs of a convolution, in F32.
  const KvCost hybrid = kv_cost(card("Qwen3-Next-80B-A3B"), 16);
  EXPECT_EQ(hybrid.per_token(), 12 * 2 * 2 * 256 * 2);
  EXPECT_EQ(hybrid.state_bytes, 36 * 4 * (32.0 * 128 * 128 + 3 * (2 * 16 * 128 + 32 * 128)));
}

TEST(Size, ABlockOfTheEngineIsWhatTheFormulaSays) {
  for (const char* name : {"Llama-3.3-70B", "DeepSeek-V3", "Qwen3-8B"}) {
    const ModelCard model = card(name);
    const auto memory = use(model, "B300", {.tp = 8});
    ASSERT_TRUE(memory.has_value()) << memory.error().message;
    const double parts = name[0] == 'D' ? 1 : 8;  // a latent has no heads to share
    EXPECT_NEAR(memory->kv_bytes_per_token * parts, kv_cost(model, 16).per_token(), 1e-6) << name;
  }
}

TEST(Size, WeightsOfAllDevicesAreTheModel) {
  for (const char* name : {"Llama-3.3-70B", "Qwen3-235B-A22B", "DeepSeek-V3", "MiniMax-M2.5"}) {
    const ModelCard model = card(name);
    const double whole = model.bytes_as(model.types);
    for (const ParallelLayout layout : {ParallelLayout{}, ParallelLayout{.tp = 4}, ParallelLayout{.tp = 2}}) {
      const auto memory = use(model, "B300", layout);
      ASSERT_TRUE(memory.has_value()) << memory.error().message;
      // What is repeated: norms, routers, the narrow projections of latents.
      EXPECT_GE(memory->weights.total() * layout.devices(), whole * (1 - 1e-9)) << name;
      EXPECT_LT(memory->weights.total() * layout.devices(), whole * 1.03) << name;
    }
  }
}

// vLLM 0.19 on an RTX 4090 with Llama 3.1 8B, 2048 tokens a pass: 41,408 tokens of KV (LLMServingSim's recorded run).
TEST(Size, TokensOfKvAreThoseOfAMeasuredEngine) {
  const auto memory = use(card("Llama-3.1-8B"), "RTX-4090,mem_gb=25.250627584", {}, 2048);
  ASSERT_TRUE(memory.has_value()) << memory.error().message;
  EXPECT_NEAR(static_cast<double>(memory->kv_tokens(1024)) / 41408, 1, 0.12);
}

TEST(Size, WhatDoesNotFitIsRefusedWithItsTerm) {
  SizeQuery query{.subject = {.model = "Llama-3.3-70B", .hardware = "H100"}, .layout_given = true};
  auto report = size_report(query);
  ASSERT_FALSE(report.has_value());
  EXPECT_THAT(report.error().message, HasSubstr("weights do not fit"));
  EXPECT_THAT(report.error().message, HasSubstr("141.11 GB"));
  EXPECT_THAT(report.error().message, HasSubstr("from TP2 on"));
  query.subject.layout.tp = 8;
  ASSERT_TRUE(size_report(query).has_value()) << size_report(query).error().message;
  query.context = 100'000'000;
  EXPECT_THAT(size_report(query).error().message, HasSubstr("KV of one sequence"));
  EXPECT_THAT(size_report(query).error().message, HasSubstr("longest context"));
  query.context = 0;
  query.step_tokens = 10'000'000;
  EXPECT_THAT(size_report(query).error().message, HasSubstr("workspace"));
}

TEST(Size, LayoutsThatCannotBeAreRefusedWithBothNumbers) {
  const ModelCard model = card("Qwen3-30B-A3B");
  for (const auto& [layout, text] :
       {std::pair{ParallelLayout{.tp = 3}, "TP 3 does not divide the 32"},
        std::pair{ParallelLayout{.pp = 49}, "48 layers"},
        std::pair{ParallelLayout{.ep = 2}, "EP 2 does not divide the 1"}, std::pair{ParallelLayout{.tp = 0}, "TP is 0"},
        std::pair{ParallelLayout{.dp = 256, .ep = 256}, "128 experts"}}) {
    const auto status = check_layout(model, layout);
    ASSERT_FALSE(status.has_value()) << text;
    EXPECT_THAT(status.error().message, HasSubstr(text));
  }
  EXPECT_THAT(check_layout(card("Qwen3-8B"), {.tp = 2, .ep = 2}).error().message, HasSubstr("no experts"));
}

TEST(Size, LongestContextAndSequencesAreTheLargestThatFit) {
  const ModelCard model = card("Gemma-3-27B");
  const auto memory = use(model, "H100", {.tp = 2});
  ASSERT_TRUE(memory.has_value());
  const std::int64_t longest = memory->longest_context();
  EXPECT_EQ(memory->sequences_of(longest), 1);
  EXPECT_EQ(memory->sequences_of(longest + 16), 0);
  for (const std::int64_t tokens : {100, 5000, 100000}) {
    const std::int64_t count = memory->sequences_of(tokens);
    EXPECT_LE(count * memory->kv_layout.blocks_needed(tokens, 8192), memory->blocks);
    EXPECT_GT((count + 1) * memory->kv_layout.blocks_needed(tokens, 8192), memory->blocks);
  }
  // Data parallel groups have KV of their own.
  const auto doubled = use(model, "H100", {.tp = 2, .dp = 2});
  EXPECT_NEAR(static_cast<double>(doubled->sequences_of(5000)) / static_cast<double>(memory->sequences_of(5000)), 2,
              0.05);
}

TEST(Size, WasteOfBlocksIsHalfABlockOfFullLayers) {
  const ModelCard model = card("Llama-3.1-8B");
  for (const int block : {1, 16, 64, 256}) {
    const KvWaste waste = internal_waste(model, 16, block, 4096);
    EXPECT_NEAR(waste.held_bytes - waste.used_bytes, (block - 1) / 2.0 * 131072, 1) << block;
  }
}

TEST(Size, TheReportSaysTheFigures) {
  const auto report = size_report({.subject = {.model = "Llama-3.3-70B", .hardware = "H200"}});
  ASSERT_TRUE(report.has_value()) << report.error().message;
  EXPECT_NEAR(report->json["model"]["weight_bytes"].get<double>(), 141.1e9, 0.1e9);
  EXPECT_EQ(report->json["kv"]["bytes_per_token"], 327680);
  EXPECT_THAT(report->text, HasSubstr("327,680 bytes per token = 320.0 KiB"));
  EXPECT_THAT(report->text, HasSubstr("stands once"));
  EXPECT_EQ(report->json["fit"]["layout"], "TP2");
  const auto latent = size_report({.subject = {.model = "DeepSeek-V3"}});
  ASSERT_TRUE(latent.has_value());
  EXPECT_THAT(latent->text, HasSubstr("70,272 bytes per token = 68.6 KiB"));
  EXPECT_FALSE(latent->json.contains("fit"));
}

TEST(Size, BadQueriesAreRefused) {
  for (const SizeQuery& query : {SizeQuery{.subject = {.model = "Qwen3-8B"}, .context = -1},
                                 SizeQuery{.subject = {.model = "Qwen3-8B"}, .block_tokens = 0},
                                 SizeQuery{.subject = {.model = "Qwen3-8B", .kv = "magic"}},
                                 SizeQuery{.subject = {.model = "Qwen3-8B", .weights = "magic"}},
                                 SizeQuery{.subject = {.model = "Qwen3-8B", .hardware = "H100"}, .step_tokens = 0},
                                 SizeQuery{.subject = {.model = "Qwen3-8B", .hardware = "H100"}, .memory_share = 2}}) {
    EXPECT_FALSE(size_report(query).has_value());
  }
}

TEST(Size, EveryKnownModelHasAReportOnEveryDeviceOrAReason) {
  for (const std::string& name : known_models()) {
    for (const char* hardware : {"H100", "MI300X", "Xeon-8480+"}) {
      const auto report = size_report({.subject = {.model = name, .hardware = hardware}});
      if (report) continue;
      EXPECT_THAT(report.error().message, HasSubstr("fit")) << name;
    }
  }
}

TEST(Links, DevicesWithoutALinkAreRefused) {
  const auto asked = [](const std::string& hardware, int tp) {
    return check_links(*find_hardware(hardware), {.tp = tp});
  };
  EXPECT_TRUE(asked("mine,bf16_dense_tflops=100,mem_gb=80,mem_bw_gbs=1000", 1));
  const auto refused = asked("mine,bf16_dense_tflops=100,mem_gb=80,mem_bw_gbs=1000", 2);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("link_gbs_per_dir"), std::string::npos);
  EXPECT_TRUE(asked("mine,bf16_dense_tflops=100,mem_gb=80,mem_bw_gbs=1000,pcie_gbs_per_dir=64", 2));
  const auto far = asked("mine,bf16_dense_tflops=100,mem_gb=80,mem_bw_gbs=1000,pcie_gbs_per_dir=64,domain=2", 4);
  ASSERT_FALSE(far);
  EXPECT_NE(far.error().message.find("nic_gbit_per_device"), std::string::npos);
}

}  // namespace
}  // namespace weir::plan
