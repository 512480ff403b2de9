#include "load/gguf_config.h"

#include <gtest/gtest.h>

#include <cmath>

#include "load/test_gguf.h"

namespace weir::load {
namespace {

using test::Bytes;
using test::GgufBuilder;
using test::tiny_gguf;

// Keeps the bytes that a parsed file points into.
struct Opened {
  std::vector<std::byte> bytes;
  Result<ModelFiles> model;
};

Opened open(const GgufBuilder& builder) {
  Opened opened{builder.build(), fail(ErrorCode::kInternal, "not opened")};
  auto gguf = GgufFile::parse(opened.bytes, "test.gguf");
  if (gguf) {
    opened.model = model_from_gguf(*std::move(gguf), "test.gguf");
  } else {
    opened.model = tl::unexpected(gguf.error());
  }
  return opened;
}

ModelSpec spec_of(const GgufBuilder& builder) {
  const auto opened = open(builder);
  EXPECT_TRUE(opened.model) << opened.model.error().message;
  return opened.model ? opened.model->spec : ModelSpec{};
}

void refused(const GgufBuilder& builder, std::string_view part, ErrorCode code = ErrorCode::kCorruptFile) {
  const auto opened = open(builder);
  ASSERT_FALSE(opened.model) << "expected an error with: " << part;
  EXPECT_EQ(opened.model.error().code, code) << opened.model.error().message;
  EXPECT_NE(opened.model.error().message.find(part), std::string::npos)
      << opened.model.error().message << "\nlacks: " << part;
}

TEST(GgufConfig, Llama) {
  const ModelSpec s = spec_of(tiny_gguf());
  EXPECT_EQ(s.family, "llama");
  EXPECT_EQ(s.name, "tiny");
  EXPECT_EQ(std::tuple(s.layers, s.hidden, s.heads, s.kv_heads, s.head_dim, s.ffn, s.vocab),
            std::tuple(1, 32, 4, 2, 8, 48, 10));
  EXPECT_EQ(s.context_length, 64);
  EXPECT_TRUE(s.tied_embeddings);
  EXPECT_FALSE(s.post_norms);
  EXPECT_EQ(s.qk_norm, QkNorm::kNone);
  EXPECT_FLOAT_EQ(s.attention_scale, 1.0f / std::sqrt(8.0f));
  ASSERT_EQ(s.ropes.size(), 1u);
  EXPECT_EQ(s.ropes[0].pairing, RopeSpec::Pairing::kAdjacent);
  EXPECT_EQ(s.ropes[0].dims, 8);
  EXPECT_EQ(s.ropes[0].theta, 10000.0);
  EXPECT_EQ(s.ropes[0].scaling, RopeSpec::Scaling::kNone);
  EXPECT_EQ(s.layer[0].window, 0);
  EXPECT_EQ(s.quantisation, "F32");
  EXPECT_EQ(s.norm_weight_offset, 0.0f);
}

TEST(GgufConfig, HeadCountsDefault) {
  GgufBuilder b = tiny_gguf();
  b.erase("llama.attention.head_count_kv");
  b.f32_tensor("blk.0.attn_k.weight", {32, 32});
  b.f32_tensor("blk.0.attn_v.weight", {32, 32});
  EXPECT_EQ(spec_of(b).kv_heads, 4);
  EXPECT_EQ(spec_of(tiny_gguf().array<std::int32_t>("llama.attention.head_count_kv", 5, {2})).kv_heads, 2);
  refused(tiny_gguf().array<std::int32_t>("llama.attention.head_count_kv", 5, {2, 4}), "differs between layers",
          ErrorCode::kUnsupported);
  refused(tiny_gguf().array<std::int32_t>("llama.attention.head_count_kv", 5, {}), "array of 0");
}

TEST(GgufConfig, LlamaExtras) {
  GgufBuilder b = tiny_gguf();
  b.f32_tensor("output.weight", {32, 10});
  b.f32_tensor("blk.0.attn_q.bias", {32});
  b.f32_tensor("blk.0.ffn_down.bias", {32});
  auto& divisors = b.f32_tensor("rope_freqs.weight", {4});
  const float values[4] = {1, 2, 4, 8};
  std::memcpy(divisors.data.data(), values, sizeof(values));
  const auto opened = open(b);
  ASSERT_TRUE(opened.model) << opened.model.error().message;
  EXPECT_FALSE(opened.model->spec.tied_embeddings);
  EXPECT_EQ(opened.model->spec.ropes[0].frequency_divisors, (std::vector<float>{1, 2, 4, 8}));
  EXPECT_NE(opened.model->weights->find("blk.0.attn_q.bias"), nullptr);
  EXPECT_EQ(opened.model->weights->find("blk.0.attn_k.bias"), nullptr);
  EXPECT_EQ(opened.model->weights->find("rope_freqs.weight"), nullptr);
  std::memset(divisors.data.data(), 0, 4);
  refused(b, "positive numbers");
  b.f32_tensor("rope_freqs.weight", {5});
  refused(b, "4 F32 values");
}

TEST(GgufConfig, RopeScaling) {
  ModelSpec s = spec_of(tiny_gguf().f32("llama.rope.scale_linear", 4.0f).f32("llama.rope.freq_base", 5e5f));
  EXPECT_EQ(s.ropes[0].scaling, RopeSpec::Scaling::kLinear);
  EXPECT_EQ(s.ropes[0].factor, 4.0);
  EXPECT_EQ(s.ropes[0].theta, 5e5);
  s = spec_of(tiny_gguf().f32("llama.rope.scale_linear", 0.0f));
  EXPECT_EQ(s.ropes[0].scaling, RopeSpec::Scaling::kNone);
  s = spec_of(tiny_gguf().string("llama.rope.scaling.type", "none").f32("llama.rope.scaling.factor", 4.0f));
  EXPECT_EQ(s.ropes[0].factor, 1.0);

  const GgufBuilder yarn =
      tiny_gguf("qwen2").string("qwen2.rope.scaling.type", "yarn").f32("qwen2.rope.scaling.factor", 4.0f);
  s = spec_of(yarn);
  EXPECT_EQ(s.ropes[0].scaling, RopeSpec::Scaling::kYarn);
  EXPECT_EQ(s.ropes[0].pairing, RopeSpec::Pairing::kHalves);
  EXPECT_EQ(s.ropes[0].original_context, 64);
  EXPECT_DOUBLE_EQ(s.ropes[0].attention_factor, 1.0 + 0.1 * std::log(4.0));
  s = spec_of(GgufBuilder(yarn)
                  .u32("qwen2.rope.scaling.original_context_length", 16)
                  .f32("qwen2.rope.scaling.yarn_attn_factor", 1.5f));
  EXPECT_EQ(s.ropes[0].original_context, 16);
  EXPECT_EQ(s.ropes[0].attention_factor, 1.5);
  s = spec_of(GgufBuilder(yarn).f32("qwen2.rope.scaling.attn_factor", 2.0f));
  EXPECT_DOUBLE_EQ(s.ropes[0].attention_factor, 2 * (1.0 + 0.1 * std::log(4.0)));
  refused(GgufBuilder(yarn).string("qwen2.rope.scaling.type", "longrope"), "needs the tensors rope_factors_");
  refused(GgufBuilder(yarn).string("qwen2.rope.scaling.type", "ntk"), "ntk", ErrorCode::kUnsupported);
  refused(GgufBuilder(yarn).u32("qwen2.rope.scaling.type", 1), "no string");
  refused(GgufBuilder(yarn).f32("qwen2.rope.scaling.factor", -1.0f), "factor -1");
  refused(GgufBuilder(yarn).f32("qwen2.rope.freq_base", std::nanf("")), "a number expected");
  refused(GgufBuilder(yarn).f32("qwen2.rope.freq_base", 0.0f), "base is 0");
}

TEST(GgufConfig, Qwen) {
  EXPECT_EQ(spec_of(tiny_gguf("qwen2")).qk_norm, QkNorm::kNone);
  EXPECT_EQ(spec_of(tiny_gguf("qwen3")).qk_norm, QkNorm::kHead);
  GgufBuilder b = tiny_gguf("qwen2");
  std::erase_if(b.tensors, [](const auto& t) { return t.name == "blk.0.attn_k.bias"; });
  refused(b, "blk.0.attn_k.bias");
  b = tiny_gguf("qwen3");
  b.f32_tensor("blk.0.attn_q.bias", {32});
  refused(b, "not part of this model family: blk.0.attn_q.bias", ErrorCode::kUnsupported);
}

GgufBuilder gemma(int layers) {
  GgufBuilder b = tiny_gguf("gemma3");
  b.u32("gemma3.block_count", static_cast<std::uint32_t>(layers)).u32("gemma3.attention.sliding_window", 16);
  const std::vector<test::TestTensor> one = b.tensors;
  for (int i = 1; i < layers; ++i) {
    for (const auto& t : one) {
      if (!t.name.starts_with("blk.0.")) continue;
      b.tensors.push_back(t);
      b.tensors.back().name = fmt::format("blk.{}.{}", i, t.name.substr(6));
    }
  }
  return b;
}

TEST(GgufConfig, Gemma) {
  ModelSpec s = spec_of(gemma(7).f32("gemma3.rope.freq_base", 1e6f).f32("gemma3.rope.scaling.factor", 8.0f));
  EXPECT_TRUE(s.post_norms);
  EXPECT_EQ(s.qk_norm, QkNorm::kHead);
  EXPECT_EQ(s.activation, Activation::kGeluTanh);
  EXPECT_FLOAT_EQ(s.embedding_scale, std::sqrt(32.0f));
  EXPECT_EQ(s.norm_weight_offset, 0.0f);  // the converter has added it
  ASSERT_EQ(s.ropes.size(), 2u);
  EXPECT_EQ(s.ropes[0].theta, 1e6);
  EXPECT_EQ(s.ropes[0].factor, 8.0);
  EXPECT_EQ(s.ropes[1].theta, 10000.0);
  EXPECT_EQ(s.ropes[1].scaling, RopeSpec::Scaling::kNone);
  for (int i = 0; i < 7; ++i) {
    EXPECT_EQ(s.layer[static_cast<std::size_t>(i)].window, i == 5 ? 0 : 16) << i;
    EXPECT_EQ(s.layer[static_cast<std::size_t>(i)].rope, i == 5 ? 0 : 1) << i;
  }
  s = spec_of(gemma(3).u32("gemma3.attention.sliding_window_pattern", 2).f32("gemma3.rope.freq_base_swa", 500.0f));
  EXPECT_EQ(s.layer[0].window, 16);
  EXPECT_EQ(s.layer[1].window, 0);
  EXPECT_EQ(s.ropes[1].theta, 500.0);
  s = spec_of(gemma(3).array<std::uint8_t>("gemma3.attention.sliding_window_pattern", 7, {0, 1, 0}));
  EXPECT_EQ(s.layer[0].window, 0);
  EXPECT_EQ(s.layer[1].window, 16);
  refused(gemma(3).array<std::uint8_t>("gemma3.attention.sliding_window_pattern", 7, {0, 1}), "2 entries for 3 layers");
  EXPECT_FLOAT_EQ(spec_of(gemma(62)).attention_scale, 1.0f / std::sqrt(8.0f));
}

TEST(GgufConfig, HostileSizes) {
  refused(tiny_gguf().u32("llama.block_count", 0), "block_count\" is 0");
  refused(tiny_gguf().u32("llama.block_count", 513), "1 to 512");
  refused(tiny_gguf().u32("llama.block_count", 0x80000000u), "2147483648");
  refused(tiny_gguf().i32("llama.block_count", -1), "is -1");
  refused(tiny_gguf().string("llama.block_count", "1"), "a string");
  refused(tiny_gguf().u32("llama.block_count", 2), "blk.1.attn_norm.weight");
  refused(tiny_gguf().u32("llama.attention.head_count", 0), "head_count\" is 0");
  refused(tiny_gguf().u32("llama.attention.head_count_kv", 0), "head_count_kv\" is 0");
  refused(tiny_gguf().u32("llama.attention.head_count_kv", 8), "4 query heads cannot share 8");
  refused(tiny_gguf().u32("llama.attention.head_count_kv", 3), "4 query heads cannot share 3");
  refused(tiny_gguf().u32("llama.attention.head_count", 5), "cannot be split into 5 heads");
  refused(tiny_gguf().u32("llama.embedding_length", 0), "embedding_length\" is 0");
  refused(tiny_gguf().u32("llama.embedding_length", 64), "has shape [10, 32]; the model's sizes ask for [10, 64]");
  refused(tiny_gguf().u32("llama.feed_forward_length", 0xffffffffu), "feed_forward_length");
  refused(tiny_gguf().u32("llama.context_length", 0), "context_length");
  refused(tiny_gguf().u32("llama.rope.dimension_count", 7), "7 of 8 elements");
  refused(tiny_gguf().u32("llama.rope.dimension_count", 10), "10 of 8 elements");
  refused(tiny_gguf().u32("llama.attention.value_length", 16), "differ", ErrorCode::kUnsupported);
  refused(tiny_gguf().u32("llama.expert_count", 8), "\"llama.expert_used_count\" is missing");
  refused(tiny_gguf().u32("llama.expert_count", 8).u32("llama.expert_used_count", 9), "a token uses 9 of 8 experts");
  refused(tiny_gguf().u32("llama.expert_count", 5000).u32("llama.expert_used_count", 2), "expert_count\" is 5000");
  refused(tiny_gguf().f32("llama.attention.layer_norm_rms_epsilon", -1.0f), "epsilon is -1");
  refused(tiny_gguf().erase("llama.attention.layer_norm_rms_epsilon"), "layer_norm_rms_epsilon");
  refused(tiny_gguf().erase("general.architecture"), "general.architecture");
  refused(tiny_gguf().string("general.architecture", "qwen2vl"), "the nearest that is: qwen2", ErrorCode::kUnsupported);
  refused(tiny_gguf().string("general.architecture", "mamba"), "Supported: llama, qwen2", ErrorCode::kUnsupported);
  refused(tiny_gguf().string("general.type", "mmproj"), "mmproj", ErrorCode::kUnsupported);
}

TEST(GgufConfig, HostileWeights) {
  GgufBuilder b = tiny_gguf();
  b.tensor("blk.0.attn_norm.weight").type = 26;
  refused(b, "type I32", ErrorCode::kUnsupported);
  b = tiny_gguf();
  auto& norm = b.tensor("blk.0.attn_norm.weight");
  norm.type = 8;
  norm.data.resize(34);
  refused(b, "type Q8_0", ErrorCode::kUnsupported);
  b = tiny_gguf();
  std::swap(b.tensor("blk.0.ffn_down.weight").dims[0], b.tensor("blk.0.ffn_down.weight").dims[1]);
  refused(b, "\"blk.0.ffn_down.weight\" has shape [48, 32]; the model's sizes ask for [32, 48]");
  b = tiny_gguf();
  b.tensor("blk.0.attn_norm.weight").dims = {32, 1};
  refused(b, "has shape [1, 32]");
  b = tiny_gguf();
  b.tensors.pop_back();
  b.tensors.pop_back();
  refused(b, "2 tensors of the model are missing: blk.0.ffn_down.weight, output_norm.weight");
  b = tiny_gguf();
  b.f32_tensor("blk.0.mystery.weight", {32});
  refused(b, "blk.0.mystery.weight", ErrorCode::kUnsupported);
}

TEST(GgufConfig, Vocabulary) {
  refused(tiny_gguf().u32("tokenizer.ggml.bos_token_id", 10), "bos_token_id\" is 10; a token id from 0 to 9");
  refused(tiny_gguf().i32("tokenizer.ggml.eos_token_id", -2), "eos_token_id\" is -2");
  refused(tiny_gguf().string("tokenizer.ggml.eos_token_id", "8"), "eos_token_id");
  refused(tiny_gguf().strings("tokenizer.ggml.tokens", {}), "array of 0");
  refused(tiny_gguf().u32("tokenizer.ggml.tokens", 3), "tokenizer.ggml.tokens");
  refused(tiny_gguf().strings("tokenizer.ggml.tokens", {"a"}), "has shape [10, 32]; the model's sizes ask for [1, 32]");
  refused(tiny_gguf().erase("tokenizer.ggml.tokens"), "vocab_size");
  EXPECT_TRUE(open(tiny_gguf().u32("tokenizer.ggml.padding_token_id", 0xffffffffu)).model);
  EXPECT_EQ(spec_of(tiny_gguf().erase("tokenizer.ggml.tokens").u32("llama.vocab_size", 10)).vocab, 10);
}

TEST(GgufConfig, GenerationAndTemplates) {
  GgufBuilder b = tiny_gguf();
  b.u32("tokenizer.ggml.eos_token_id", 0).u32("tokenizer.ggml.eot_token_id", 1);
  b.f32("general.sampling.temp", 0.5f).i32("general.sampling.top_k", 30).f32("general.sampling.top_p", 7.0f);
  b.string("tokenizer.chat_template", "main").string("tokenizer.chat_template.tool_use", "tools");
  b.string("tokenizer.huggingface.json", "{}");
  const auto opened = open(b);
  ASSERT_TRUE(opened.model) << opened.model.error().message;
  const ModelFiles& m = *opened.model;
  EXPECT_EQ(m.generation.eos_ids, (std::vector<TokenId>{0, 1, 8}));  // 8: a control token that ends turns
  EXPECT_EQ(m.generation.temperature, 0.5f);
  EXPECT_EQ(m.generation.top_k, 30);
  EXPECT_EQ(m.generation.top_p, std::nullopt);
  EXPECT_EQ(m.chat_templates.at(""), "main");
  EXPECT_EQ(m.chat_templates.at("tool_use"), "tools");
  EXPECT_EQ(m.tokenizer_json, "{}");
  refused(tiny_gguf().string("tokenizer.chat_template", std::string(2 << 20, 'x')), "2097152 bytes",
          ErrorCode::kTooLarge);
}

TEST(GgufConfig, MainTypeAndSummary) {
  GgufBuilder b = tiny_gguf();
  for (const auto* name : {"blk.0.attn_q.weight", "blk.0.attn_output.weight", "blk.0.attn_k.weight",
                           "blk.0.attn_v.weight", "blk.0.ffn_gate.weight", "blk.0.ffn_up.weight"}) {
    auto& t = b.tensor(name);
    t.type = 8;
    t.data.resize(t.data.size() / 4 / 32 * 34);
  }
  b.f32_tensor("blk.0.ffn_down.weight", {48, 32}).type = 1;
  b.tensor("blk.0.ffn_down.weight").data.resize(48 * 32 * 2);
  b.f32_tensor("token_embd.weight", {32, 10}).type = 30;
  b.tensor("token_embd.weight").data.resize(32 * 10 * 2);
  const ModelSpec s = spec_of(b);
  EXPECT_EQ(s.main_dtype, tensor::DType::kQ8_0);
  EXPECT_EQ(s.quantisation, "Q8_0 64 %, F16 30 %, BF16 6 %");
}

}  // namespace
}  // namespace weir::load
