#include "load/hf_config.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "load/expected_tensors.h"

namespace weir::load {
namespace {

using nlohmann::json;

// A configuration with `changes` merged in (a null takes a key away, as RFC 7396 has it).
json config(std::string_view architecture, const json& changes = json::object()) {
  json c = {{"architectures", {architecture}},
            {"hidden_size", 64},
            {"intermediate_size", 96},
            {"num_hidden_layers", 4},
            {"num_attention_heads", 4},
            {"num_key_value_heads", 2},
            {"vocab_size", 300},
            {"max_position_embeddings", 512}};
  c.merge_patch(changes);
  return c;
}

ParsedModel read(const json& c) {
  auto result = spec_from_config(c, "config.json");
  EXPECT_TRUE(result) << result.error().message;
  return result ? *std::move(result) : ParsedModel{};
}

void refused(const json& c, std::string_view part, ErrorCode code = ErrorCode::kCorruptFile) {
  const auto result = spec_from_config(c, "config.json");
  ASSERT_FALSE(result) << "expected an error with: " << part;
  EXPECT_EQ(result.error().code, code) << result.error().message;
  EXPECT_NE(result.error().message.find(part), std::string::npos) << result.error().message << "\nlacks: " << part;
}

// Keys that only some families read, and then need.
const json kEverything = {{"moe_topk", 2},
                          {"rope_parameters", {{"rope_type", "default"}}},
                          {"num_local_experts", 8},
                          {"num_experts_per_tok", 2},
                          {"moe_num_experts", 8},
                          {"moe_k", 2},
                          {"shared_intermediate_size", 48},
                          {"moe_intermediate_size", 32},
                          {"shared_expert_intermediate_size", 48},
                          {"kv_lora_rank", 32},
                          {"q_lora_rank", 24},
                          {"qk_nope_head_dim", 16},
                          {"qk_rope_head_dim", 8},
                          {"v_head_dim", 16},
                          {"index_n_heads", 4},
                          {"index_head_dim", 16},
                          {"index_topk", 64},
                          {"linear_num_key_heads", 2},
                          {"linear_num_value_heads", 4},
                          {"linear_key_head_dim", 16},
                          {"linear_value_head_dim", 16}};

std::vector<int> windows(const ModelSpec& spec) {
  std::vector<int> all;
  for (const auto& layer : spec.layer) all.push_back(layer.window);
  return all;
}

TEST(HfConfig, Llama) {
  const auto [s, biases, skipped, is_wrapped] = read(config("LlamaForCausalLM"));
  EXPECT_EQ(s.family, "llama");
  EXPECT_EQ(std::tuple(s.layers, s.hidden, s.heads, s.kv_heads, s.head_dim, s.ffn, s.vocab),
            std::tuple(4, 64, 4, 2, 16, 96, 300));
  EXPECT_FALSE(s.tied_embeddings || s.post_norms);
  EXPECT_EQ(s.qk_norm, QkNorm::kNone);
  EXPECT_EQ(s.ropes.size(), 1u);
  EXPECT_EQ(s.ropes[0].pairing, RopeSpec::Pairing::kHalves);
  EXPECT_EQ(s.ropes[0].theta, 10000.0);
  EXPECT_EQ(s.rms_eps, 1e-6f);
  EXPECT_EQ(biases.qkv, Presence::kAbsent);
  EXPECT_EQ(skipped, 0);
  EXPECT_FALSE(is_wrapped);
  const auto biased =
      read(config("LlamaForCausalLM",
                  {{"attention_bias", true}, {"mlp_bias", true}, {"head_dim", 32}, {"num_key_value_heads", nullptr}}));
  EXPECT_EQ(biased.biases.attention_output, Presence::kRequired);
  EXPECT_EQ(biased.biases.ffn, Presence::kRequired);
  EXPECT_EQ(biased.spec.head_dim, 32);
  EXPECT_EQ(biased.spec.kv_heads, 4);
  json by_type = config("", {{"model_type", "llama"}});
  by_type.erase("architectures");
  EXPECT_EQ(read(by_type).spec.family, "llama");
}

TEST(HfConfig, MistralWindows) {
  EXPECT_EQ(windows(read(config("MistralForCausalLM", {{"sliding_window", 48}})).spec), std::vector<int>(4, 48));
  json without = config("MistralForCausalLM");
  EXPECT_EQ(windows(read(without).spec), std::vector<int>(4, 4096));
  without["sliding_window"] = nullptr;
  EXPECT_EQ(windows(read(without).spec), std::vector<int>(4, 0));
  EXPECT_EQ(read(config("MistralForCausalLM", {{"attention_bias", true}})).biases.qkv, Presence::kAbsent);
}

TEST(HfConfig, QwenWindows) {
  const json window = {{"sliding_window", 32}, {"max_window_layers", 3}};
  EXPECT_EQ(windows(read(config("Qwen2ForCausalLM", window)).spec), std::vector<int>(4, 0));
  json used = window;
  used["use_sliding_window"] = true;
  EXPECT_EQ(windows(read(config("Qwen2ForCausalLM", used)).spec), (std::vector<int>{0, 0, 0, 32}));
  used["layer_types"] = {"sliding_attention", "full_attention", "full_attention", "sliding_attention"};
  EXPECT_EQ(windows(read(config("Qwen3ForCausalLM", used)).spec), (std::vector<int>{32, 0, 0, 32}));
  const auto qwen2 = read(config("Qwen2ForCausalLM"));
  EXPECT_EQ(qwen2.biases.qkv, Presence::kRequired);
  EXPECT_EQ(qwen2.biases.attention_output, Presence::kAbsent);
  EXPECT_EQ(qwen2.spec.qk_norm, QkNorm::kNone);
  const auto qwen3 = read(config("Qwen3ForCausalLM"));
  EXPECT_EQ(qwen3.spec.qk_norm, QkNorm::kHead);
  EXPECT_EQ(qwen3.spec.head_dim, 128);
}

TEST(HfConfig, RopeScalingInBothSpellings) {
  const json llama3 = {{"rope_type", "llama3"},
                       {"factor", 8.0},
                       {"low_freq_factor", 1.5},
                       {"high_freq_factor", 3.0},
                       {"original_max_position_embeddings", 128}};
  json inside = llama3;
  inside["rope_theta"] = 5e5;
  for (const json& changes : {json{{"rope_theta", 5e5}, {"rope_scaling", llama3}}, json{{"rope_parameters", inside}}}) {
    const RopeSpec rope = read(config("LlamaForCausalLM", changes)).spec.ropes[0];
    EXPECT_EQ(rope.scaling, RopeSpec::Scaling::kLlama3);
    EXPECT_EQ(rope.theta, 5e5);
    EXPECT_EQ(rope.factor, 8.0);
    EXPECT_EQ(rope.low_freq_factor, 1.5);
    EXPECT_EQ(rope.high_freq_factor, 3.0);
    EXPECT_EQ(rope.original_context, 128);
  }
  RopeSpec rope =
      read(config("LlamaForCausalLM", {{"rope_scaling", {{"type", "linear"}, {"factor", 4}}}})).spec.ropes[0];
  EXPECT_EQ(rope.scaling, RopeSpec::Scaling::kLinear);
  EXPECT_EQ(rope.factor, 4.0);
  rope = read(config("LlamaForCausalLM", {{"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 77.0}}}}))
             .spec.ropes[0];
  EXPECT_EQ(rope.scaling, RopeSpec::Scaling::kNone);
  EXPECT_EQ(rope.theta, 77.0);
  rope = read(config("LlamaForCausalLM", {{"rope_parameters", {{"partial_rotary_factor", 0.5}}}})).spec.ropes[0];
  EXPECT_EQ(rope.dims, 8);
}

TEST(HfConfig, DynamicRopeIsPlainInItsContext) {
  const ModelSpec spec =
      read(config("LlamaForCausalLM", {{"rope_scaling", {{"type", "dynamic"}, {"factor", 2.0}}}})).spec;
  EXPECT_EQ(spec.ropes[0].scaling, RopeSpec::Scaling::kNone);
  EXPECT_EQ(spec.context_length, 512);
}

TEST(HfConfig, Yarn) {
  const auto yarn = [](json keys) {
    keys["rope_type"] = "yarn";
    return read(config("Qwen2ForCausalLM", {{"rope_scaling", keys}})).spec.ropes[0];
  };
  RopeSpec rope = yarn({{"factor", 4.0}, {"original_max_position_embeddings", 128}});
  EXPECT_EQ(rope.scaling, RopeSpec::Scaling::kYarn);
  EXPECT_EQ(rope.original_context, 128);
  EXPECT_EQ(rope.beta_fast, 32.0);
  EXPECT_EQ(rope.beta_slow, 1.0);
  EXPECT_TRUE(rope.yarn_truncate);
  EXPECT_DOUBLE_EQ(rope.attention_factor, 0.1 * std::log(4.0) + 1.0);
  EXPECT_EQ(yarn({{"factor", 4.0}}).original_context, 512);
  EXPECT_EQ(read(config("Qwen2ForCausalLM", {{"rope_scaling", {{"rope_type", "yarn"}, {"factor", 4.0}}}}))
                .spec.context_length,
            2048);
  EXPECT_EQ(yarn({{"original_max_position_embeddings", 128}}).factor, 4.0);  // max_position_embeddings / original
  EXPECT_EQ(yarn({{"factor", 4.0}, {"attention_factor", 1.25}}).attention_factor, 1.25);
  EXPECT_EQ(yarn({{"factor", 0.5}}).attention_factor, 1.0);
  rope = yarn({{"factor", 4.0},
               {"mscale", 1.0},
               {"mscale_all_dim", 0.5},
               {"beta_fast", 16},
               {"beta_slow", 2},
               {"truncate", false}});
  EXPECT_DOUBLE_EQ(rope.attention_factor, (0.1 * std::log(4.0) + 1.0) / (0.05 * std::log(4.0) + 1.0));
  EXPECT_EQ(rope.beta_fast, 16.0);
  EXPECT_EQ(rope.beta_slow, 2.0);
  EXPECT_FALSE(rope.yarn_truncate);
}

TEST(HfConfig, Gemma) {
  const auto [s, biases, skipped, is_wrapped] =
      read(config("Gemma3ForCausalLM", {{"num_hidden_layers", 7},
                                        {"head_dim", 16},
                                        {"sliding_window", 24},
                                        {"query_pre_attn_scalar", 100},
                                        {"final_logit_softcapping", 30},
                                        {"rope_theta", 2e6},
                                        {"rope_local_base_freq", 500.0},
                                        {"rope_scaling", {{"rope_type", "linear"}, {"factor", 8.0}}}}));
  EXPECT_EQ(windows(s), (std::vector<int>{24, 24, 24, 24, 24, 0, 24}));
  EXPECT_EQ(s.layer[5].rope, 0);
  EXPECT_EQ(s.layer[6].rope, 1);
  ASSERT_EQ(s.ropes.size(), 2u);
  EXPECT_EQ(s.ropes[0].theta, 2e6);
  EXPECT_EQ(s.ropes[0].factor, 8.0);
  EXPECT_EQ(s.ropes[1].theta, 500.0);
  EXPECT_EQ(s.ropes[1].scaling, RopeSpec::Scaling::kNone);
  EXPECT_TRUE(s.tied_embeddings && s.post_norms);
  EXPECT_FALSE(is_wrapped);
  EXPECT_EQ(s.qk_norm, QkNorm::kHead);
  EXPECT_EQ(s.norm_weight_offset, 1.0f);
  EXPECT_EQ(s.embedding_scale, 8.0f);
  EXPECT_FLOAT_EQ(s.attention_scale, 0.1f);
  EXPECT_EQ(s.final_softcap, 30.0f);
  EXPECT_EQ(s.attention_softcap, 0.0f);
  EXPECT_EQ(s.activation, Activation::kGeluTanh);
  EXPECT_EQ(biases.qkv, Presence::kAbsent);
  EXPECT_EQ(skipped, 0);
}

TEST(HfConfig, GemmaDefaultsAndNewKeys) {
  ModelSpec s = read(config("Gemma3ForCausalLM")).spec;
  EXPECT_EQ(s.head_dim, 256);
  EXPECT_EQ(s.layer[0].window, 4096);
  EXPECT_FLOAT_EQ(s.attention_scale, 1.0f / 16);
  EXPECT_EQ(s.ropes[0].theta, 1e6);
  EXPECT_EQ(s.ropes[1].theta, 1e4);
  const json parameters = {{"full_attention", {{"rope_type", "yarn"}, {"factor", 2.0}, {"rope_theta", 3e6}}},
                           {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 7e3}}}};
  s = read(config("Gemma3ForCausalLM",
                  {{"rope_parameters", parameters},
                   {"layer_types", {"full_attention", "sliding_attention", "sliding_attention", "full_attention"}}}))
          .spec;
  EXPECT_EQ(s.ropes[0].scaling, RopeSpec::Scaling::kYarn);
  EXPECT_EQ(s.ropes[0].theta, 3e6);
  EXPECT_EQ(s.ropes[1].theta, 7e3);
  EXPECT_EQ(windows(s), (std::vector<int>{0, 4096, 4096, 0}));
  s = read(config("Gemma3ForCausalLM", {{"sliding_window_pattern", 2}})).spec;
  EXPECT_EQ(windows(s), (std::vector<int>{4096, 0, 4096, 0}));
}

TEST(HfConfig, Architectures) {
  refused(config("Qwen3VLForCausalLM"), "the nearest that is: Qwen3", ErrorCode::kUnsupported);
  refused(config("LLaMAForCausalLM"), "the nearest that is: LlamaForCausalLM", ErrorCode::kUnsupported);
  refused(config("llamaforcausallm"), "the nearest that is: LlamaForCausalLM", ErrorCode::kUnsupported);
  refused(config("Mistral4ForCausalLM"), "the nearest that is: MistralForCausalLM", ErrorCode::kUnsupported);
  refused(config("FooBarLM"), "the nearest that is: ", ErrorCode::kUnsupported);
  refused(config(""), "the nearest that is: ", ErrorCode::kUnsupported);
  refused(config(std::string(100'000, 'L')), "the nearest that is: ", ErrorCode::kUnsupported);
  refused(config("MambaForCausalLM"), "Supported: LlamaForCausalLM, Mistral", ErrorCode::kUnsupported);
  refused(config("x", {{"architectures", json::array()}}), "no list of names");
  refused(config("x", {{"architectures", 5}}), "no list of names");
  refused(config("x", {{"architectures", nullptr}}), "neither");
  refused(json::array(), "not a JSON object");
  refused(json("text"), "not a JSON object");
}

// A configuration whose language model, of that type, is a part.
json wrapped(std::string_view architecture, json text) {
  text.erase("architectures");
  return {{"architectures", {architecture}}, {"text_config", std::move(text)}, {"vision_config", {{"hidden_size", 8}}}};
}

TEST(HfConfig, LanguageModelsInsideOfLargerOnes) {
  const auto of_type = [](std::string_view type) { return config("", {{"model_type", type}}); };
  for (const auto& [name, type, family] : {std::tuple("Gemma3ForConditionalGeneration", "gemma3_text", "gemma3"),
                                           std::tuple("Mistral3ForConditionalGeneration", "mistral", "mistral"),
                                           std::tuple("LlavaForConditionalGeneration", "llama", "llama"),
                                           std::tuple("LlavaNextForConditionalGeneration", "mistral", "mistral"),
                                           std::tuple("LlavaOnevisionForConditionalGeneration", "qwen2", "qwen2"),
                                           std::tuple("Qwen2VLForConditionalGeneration", "qwen2_vl_text", "qwen2"),
                                           std::tuple("Qwen2_5_VLForConditionalGeneration", "qwen2_5_vl_text", "qwen2"),
                                           std::tuple("Qwen3VLForConditionalGeneration", "qwen3_vl_text", "qwen3"),
                                           std::tuple("InternVLForConditionalGeneration", "qwen3", "qwen3"),
                                           std::tuple("SmolVLMForConditionalGeneration", "llama", "llama")}) {
    SCOPED_TRACE(name);
    const ParsedModel model = read(wrapped(name, of_type(type)));
    EXPECT_EQ(model.spec.family, family);
    EXPECT_EQ(model.spec.layers, 4);
    EXPECT_TRUE(model.wrapped);
  }
  EXPECT_FALSE(read(config("LlamaForCausalLM")).wrapped);
  refused(wrapped("LlavaForConditionalGeneration", of_type("gpt2")),
          "in this LlavaForConditionalGeneration is a \"gpt2\"", ErrorCode::kUnsupported);
  refused(wrapped("LlavaForConditionalGeneration", {{"model_type", 5}}), "text_config.model_type");
  refused(wrapped("Mistral3ForConditionalGeneration", {{"num_hidden_layers", 0}}), "text_config.num_hidden_layers");
  refused({{"architectures", {"Gemma3ForConditionalGeneration"}}, {"text_config", "x"}}, "\"text_config\" is \"x\"");
}

TEST(HfConfig, TextPartsThatSayOnlyWhatTheirClassDoesNotAssume) {
  // As Gemma 3 4B was published.
  const ModelSpec s = read({{"architectures", {"Gemma3ForConditionalGeneration"}},
                            {"model_type", "gemma3"},
                            {"eos_token_id", {1, 106}},
                            {"text_config",
                             {{"hidden_size", 2560},
                              {"intermediate_size", 10240},
                              {"model_type", "gemma3_text"},
                              {"num_hidden_layers", 34},
                              {"rope_scaling", {{"factor", 8.0}, {"rope_type", "linear"}}},
                              {"sliding_window", 1024}}}})
                          .spec;
  EXPECT_EQ(std::tuple(s.layers, s.hidden, s.heads, s.kv_heads, s.head_dim, s.ffn, s.vocab),
            std::tuple(34, 2560, 8, 4, 256, 10240, 262208));
  EXPECT_EQ(s.ropes[0].factor, 8.0);
  EXPECT_EQ(s.ropes[1].scaling, RopeSpec::Scaling::kNone);
  EXPECT_EQ(s.context_length, 131072);
  EXPECT_TRUE(s.tied_embeddings);
  // Qwen2-VL's are flat, and its rotations are those of a text.
  json flat =
      config("Qwen2VLForConditionalGeneration", {{"model_type", "qwen2_vl"},
                                                 {"rope_theta", 5e6},
                                                 {"rope_scaling", {{"type", "mrope"}, {"mrope_section", {2, 3, 3}}}},
                                                 {"vision_config", {{"hidden_size", 8}}}});
  for (int round = 0; round < 2; ++round) {
    const ParsedModel model = read(flat);
    EXPECT_EQ(model.spec.family, "qwen2");
    EXPECT_EQ(model.spec.ropes[0].scaling, RopeSpec::Scaling::kNone);
    EXPECT_EQ(model.spec.ropes[0].theta, 5e6);
    EXPECT_EQ(model.spec.rms_eps, 1e-5f);
    flat.erase("architectures");
  }
}

TEST(HfConfig, TensorsOfLanguageModelsInsideOfLargerOnes) {
  const auto prefix = [](bool wrapped, std::string_view table) {
    const HfPrefix found = hf_prefix(wrapped, [&](std::string_view name) { return name == table; });
    return std::pair(found.layers, found.head);
  };
  using P = std::pair<std::string, std::string>;
  EXPECT_EQ(prefix(true, "model.language_model.embed_tokens.weight"), P("model.language_model.", "lm_head."));
  EXPECT_EQ(prefix(true, "language_model.model.embed_tokens.weight"),
            P("language_model.model.", "language_model.lm_head."));
  EXPECT_EQ(prefix(true, "language_model.embed_tokens.weight"), P("language_model.", "lm_head."));
  EXPECT_EQ(prefix(true, "model.text_model.embed_tokens.weight"), P("model.text_model.", "lm_head."));
  EXPECT_EQ(prefix(true, "model.embed_tokens.weight"), P("model.", "lm_head."));
  EXPECT_EQ(prefix(false, "embed_tokens.weight"), P("", "lm_head."));
  EXPECT_EQ(prefix(false, "model.language_model.embed_tokens.weight"), P("model.", "lm_head."));
}

TEST(HfConfig, Hostile) {
  const auto llama = [](const json& changes) { return config("LlamaForCausalLM", changes); };
  refused(llama({{"num_hidden_layers", 0}}), "\"num_hidden_layers\" is 0; an integer from 1 to 512");
  refused(llama({{"num_hidden_layers", 513}}), "513");
  refused(llama({{"num_hidden_layers", 1e300}}), "num_hidden_layers");
  refused(llama({{"num_hidden_layers", "4"}}), "\"4\"");
  refused(llama({{"num_hidden_layers", 2.5}}), "2.5");
  refused(llama({{"num_hidden_layers", nullptr}}), "\"num_hidden_layers\" is missing");
  refused(llama({{"num_attention_heads", 0}}), "num_attention_heads");
  refused(llama({{"num_attention_heads", 5}}), "hidden_size 64 cannot be split into 5 heads");
  refused(llama({{"num_key_value_heads", 3}}), "4 query heads cannot share 3");
  refused(llama({{"num_key_value_heads", 8}}), "4 query heads cannot share 8");
  refused(llama({{"num_key_value_heads", 0}}), "num_key_value_heads");
  refused(llama({{"head_dim", 15}}), "15 elements");
  refused(llama({{"head_dim", 1 << 20}}), "head_dim");
  refused(llama({{"vocab_size", -1}}), "vocab_size");
  refused(llama({{"vocab_size", std::uint64_t{1} << 63}}), "vocab_size");
  refused(llama({{"max_position_embeddings", nullptr}}), "max_position_embeddings");
  refused(llama({{"rms_norm_eps", 2}}), "epsilon is 2");
  refused(llama({{"hidden_act", "relu"}}), "relu", ErrorCode::kUnsupported);
  refused(llama({{"tie_word_embeddings", "yes"}}), "true or false");
  refused(llama({{"rope_theta", 0}}), "base is 0");
  refused(llama({{"rope_scaling", {{"rope_type", "ntk"}}}}), "ntk", ErrorCode::kUnsupported);
  refused(llama({{"rope_scaling", {{"rope_type", "longrope"}}}}), "\"short_factor\" must be a list of 8 numbers");
  refused(llama({{"rope_scaling", {{"rope_type", "linear"}}}}), "needs a \"factor\"");
  refused(llama({{"rope_scaling", {{"rope_type", "linear"}, {"factor", 0}}}}), "factor 0");
  refused(llama({{"rope_scaling", {{"rope_type", "linear"}, {"factor", "8"}}}}), "\"rope_scaling.factor\" is \"8\"");
  refused(llama({{"rope_scaling",
                  {{"rope_type", "llama3"}, {"factor", 8}, {"low_freq_factor", 4}, {"high_freq_factor", 4}}}}),
          "high_freq_factor 4 must be above");
  refused(llama({{"rope_scaling", 5}}), "an object");
  refused(llama({{"rope_parameters", {{"partial_rotary_factor", 0.1}}}}), "1 of 16 elements");
  refused(llama({{"rope_parameters", {{"partial_rotary_factor", 2}}}}), "partial_rotary_factor");
  refused(config("MistralForCausalLM", {{"sliding_window", -1}}), "sliding_window");
  refused(config("Gemma3ForCausalLM", {{"query_pre_attn_scalar", 0}}), "query_pre_attn_scalar");
  refused(config("Gemma3ForCausalLM", {{"layer_types", {"full_attention"}}}), "1 entries for 4 layers");
  refused(config("Gemma3ForCausalLM", {{"layer_types", {"a", "b", "c", "d"}}}), "layer 0 has another type",
          ErrorCode::kUnsupported);
  refused(config("Gemma3ForCausalLM", {{"sliding_window_pattern", 0}}), "sliding_window_pattern");
  refused(config("Gemma3ForCausalLM", {{"use_bidirectional_attention", true}}), "bidirectional",
          ErrorCode::kUnsupported);
}

// Every canonical tensor of a model with the file's name for it.
std::map<std::string, TensorPlace> places(const json& c) {
  const auto model = read(c);
  auto expected = expected_tensors(model.spec, model.biases);
  TensorMap map = hf_tensor_map({.layers = "model.", .head = "lm_head."});
  const Family& family = family_named(model.spec.family);
  if (family.name_hf_tensors != nullptr) family.name_hf_tensors(model.spec, map);
  map.place(expected);
  std::map<std::string, TensorPlace> all;
  for (const ExpectedTensor& tensor : expected) all[tensor.name] = tensor.place;
  return all;
}

TEST(HfConfig, HostileExperts) {
  const auto moe = [](const json& changes) {
    json c = config("Qwen3MoeForCausalLM", kEverything);
    c.merge_patch(changes);
    return c;
  };
  refused(moe({{"num_experts_per_tok", 9}}), "a token uses 9 of 8 experts");
  refused(moe({{"num_experts_per_tok", 0}}), "num_experts_per_tok");
  refused(moe({{"num_local_experts", 0}}), "num_local_experts");
  refused(moe({{"num_local_experts", 1 << 20}}), "num_local_experts");
  refused(moe({{"num_local_experts", nullptr}}), "none of \"num_local_experts\"");
  refused(moe({{"num_local_experts", 4096}, {"num_hidden_layers", 512}}), "512 layers of 4096 experts");
  refused(moe({{"moe_intermediate_size", nullptr}}), "\"moe_intermediate_size\" is missing");
  refused(moe({{"mlp_only_layers", {7}}}), "something else than layers from 0 to 3");
  refused(moe({{"mlp_only_layers", {-1}}}), "mlp_only_layers");
  refused(moe({{"decoder_sparse_step", 0}}), "decoder_sparse_step");
  const auto grouped = [](const json& changes) {
    json c = config("DeepseekV3ForCausalLM", kEverything);
    c.merge_patch({{"n_group", 4}, {"topk_group", 2}});
    c.merge_patch(changes);
    return c;
  };
  read(grouped(json::object()));
  refused(grouped({{"n_group", 3}}), "8 experts cannot be split evenly into 3 groups");
  refused(grouped({{"topk_group", 5}}), "4 groups of which 5 are used");
  refused(grouped({{"n_group", 8}}), "too few for 2 per token");  // a group's best two, of one
  refused(grouped({{"topk_group", 1}, {"num_experts_per_tok", 3}}), "too few for 3 per token");
  refused(grouped({{"routed_scaling_factor", "x"}}), "routed_scaling_factor");
  refused(grouped({{"mlp_layer_types", {"dense"}}}), "1 entries for 4 layers");
}

TEST(HfConfig, HostileLatents) {
  const auto latent = [](const json& changes) {
    json c = config("DeepseekV32ForCausalLM", kEverything);
    c.merge_patch(changes);
    return c;
  };
  const ParsedModel model = read(latent(json::object()));
  EXPECT_EQ(model.spec.layer[0].mixer, Mixer::kLatent);
  refused(latent({{"kv_lora_rank", 0}}), "kv_lora_rank");
  refused(latent({{"kv_lora_rank", nullptr}}), "kv_lora_rank");
  refused(latent({{"qk_rope_head_dim", 7}}), "a head has 23 elements");
  refused(latent({{"qk_rope_head_dim", 7}, {"qk_nope_head_dim", 15}}), "keys of 15 + 7");
  refused(latent({{"qk_nope_head_dim", -16}}), "qk_nope_head_dim");
  refused(latent({{"num_attention_heads", 4096}, {"num_hidden_layers", 512}}), "512 layers of 4096 heads");
  json uncompressed = latent(json::object());
  uncompressed["q_lora_rank"] = nullptr;
  refused(uncompressed, "beside queries of rank 0");
  EXPECT_EQ(read(latent({{"q_lora_rank", nullptr}})).spec.latent.query_rank, 1536) << "absent";
  refused(latent({{"index_topk", 0}}), "index_topk");
  refused(latent({{"index_head_dim", 4}}), "indexer of 4 heads of 4");
}

TEST(HfConfig, HostileDeltaNets) {
  const auto delta = [](const json& changes) {
    json c = config("Qwen3NextForCausalLM", kEverything);
    c.merge_patch(changes);
    return c;
  };
  const ParsedModel model = read(delta(json::object()));
  EXPECT_EQ(model.spec.layer[2].mixer, Mixer::kDelta);
  EXPECT_EQ(model.spec.layer[3].mixer, Mixer::kAttention);
  refused(delta({{"linear_num_key_heads", 3}}), "4 value heads of 16 cannot share 3 key heads");
  refused(delta({{"linear_num_value_heads", 0}}), "linear_num_value_heads");
  refused(delta({{"linear_conv_kernel_dim", 1000}}), "linear_conv_kernel_dim");
  refused(delta({{"layer_types", std::vector<std::string>(4, "linear_attention")}}), "no layer has attention");
  refused(delta({{"layer_types", std::vector<std::string>(4, "sliding_attention")}}), "layer 0 has another type",
          ErrorCode::kUnsupported);
}

TEST(HfConfig, TensorNames) {
  auto all = places(config("Qwen2ForCausalLM"));
  EXPECT_EQ(all.at("token_embd.weight").file_name, "model.embed_tokens.weight");
  EXPECT_EQ(all.at("output.weight").file_name, "lm_head.weight");
  EXPECT_EQ(all.at("output_norm.weight").file_name, "model.norm.weight");
  EXPECT_EQ(all.at("blk.2.attn_q.bias").file_name, "model.layers.2.self_attn.q_proj.bias");
  EXPECT_EQ(all.at("blk.0.ffn_norm.weight").file_name, "model.layers.0.post_attention_layernorm.weight");
  all = places(config("Gemma3ForCausalLM"));
  EXPECT_EQ(all.at("blk.0.ffn_norm.weight").file_name, "model.layers.0.pre_feedforward_layernorm.weight");
  EXPECT_EQ(all.at("blk.0.post_attention_norm.weight").file_name, "model.layers.0.post_attention_layernorm.weight");
}

TEST(HfConfig, FusedTensors) {
  const auto all = places(config("Phi3ForCausalLM"));
  const TensorPlace &q = all.at("blk.1.attn_q.weight"), &v = all.at("blk.1.attn_v.weight"),
                    &up = all.at("blk.1.ffn_up.weight");
  EXPECT_EQ(q.file_name, "model.layers.1.self_attn.qkv_proj.weight");
  EXPECT_EQ(q.file_shape, (std::vector<std::int64_t>{64 + 32 + 32, 64}));
  EXPECT_EQ(q.rows.at(0), 0);
  EXPECT_EQ(v.file_name, q.file_name);
  EXPECT_EQ(v.rows.at(0), 96);
  EXPECT_EQ(v.rows.at(31), 127);
  EXPECT_EQ(up.file_name, "model.layers.1.mlp.gate_up_proj.weight");
  EXPECT_EQ(up.rows.at(5), 101);
}

TEST(HfConfig, LimitsOfActivationsAndProjections) {
  const auto with = [](const char* name, json changes) {
    changes.merge_patch(kEverything);
    return config(name, changes);
  };
  EXPECT_EQ(read(with("OlmoeForCausalLM", {{"clip_qkv", 8}})).spec.qkv_clip, 8.0f);
  EXPECT_EQ(read(with("OlmoeForCausalLM", {{"clip_qkv", nullptr}})).spec.qkv_clip, 0.0f);
  refused(with("OlmoeForCausalLM", {{"clip_qkv", 0}}), "clip_qkv is 0");
  refused(with("OlmoeForCausalLM", {{"clip_qkv", -1.5}}), "clip_qkv is -1.5");
  refused(with("OlmoeForCausalLM", {{"clip_qkv", 1e300}}), "clipped at inf");
  ModelSpec s = read(with("GptOssForCausalLM", {{"swiglu_alpha", 1.5}, {"swiglu_limit", 20}})).spec;
  EXPECT_EQ(std::tuple(s.swiglu_alpha, s.swiglu_limit), std::tuple(1.5f, 20.0f));
  s = read(with("GptOssForCausalLM", {})).spec;
  EXPECT_EQ(std::tuple(s.swiglu_alpha, s.swiglu_limit), std::tuple(1.702f, 7.0f));
  refused(with("GptOssForCausalLM", {{"swiglu_limit", 0}}), "limit 0");
  refused(with("GptOssForCausalLM", {{"swiglu_limit", -7}}), "limit -7");
}

TEST(HfConfig, StackedAndTurnedTensors) {
  json c = config("GptOssForCausalLM", kEverything);
  auto all = places(c);
  const TensorPlace& up = all.at("blk.1.ffn_up.5.weight");
  EXPECT_EQ(up.file_name, "model.layers.1.mlp.experts.gate_up_proj");
  EXPECT_EQ(up.file_shape, (std::vector<std::int64_t>{8, 64, 192}));
  EXPECT_EQ(up.slice, 5);
  EXPECT_TRUE(up.slice_transposed);
  EXPECT_EQ(up.rows.at(0), 1);
  EXPECT_EQ(up.rows.at(7), 15);
  EXPECT_EQ(all.at("blk.1.ffn_gate.5.bias").file_shape, (std::vector<std::int64_t>{8, 192}));
  EXPECT_EQ(all.at("blk.0.attn_sinks.weight").file_name, "model.layers.0.self_attn.sinks");
  all = places(config("DeepseekV3ForCausalLM", kEverything));
  const TensorPlace &k = all.at("blk.0.attn_k_b.3.weight"), &v = all.at("blk.0.attn_v_b.3.weight");
  EXPECT_EQ(k.file_name, "model.layers.0.self_attn.kv_b_proj.weight");
  EXPECT_EQ(k.file_shape, (std::vector<std::int64_t>{4 * 32, 32}));
  EXPECT_TRUE(k.part_transposed);
  EXPECT_FALSE(v.part_transposed);
  EXPECT_EQ(v.slice, 3);
  EXPECT_EQ(v.rows.at(0), 16);
  all = places(config("Qwen3NextForCausalLM", kEverything));
  const TensorPlace& z = all.at("blk.0.ssm_z.weight");
  EXPECT_EQ(z.file_shape, (std::vector<std::int64_t>{2 * (16 + 16 + 32 + 32), 64}));
  EXPECT_EQ(z.rows.at(0), 64);
  EXPECT_EQ(z.rows.at(32), 96 + 64);
}

TEST(HfConfig, LongRope) {
  const json factors = json::array({1, 2, 3, 4, 5, 6, 7, 8});
  const json rope = {{"type", "su"}, {"short_factor", json(std::vector<int>(8, 1))}, {"long_factor", factors}};
  const ModelSpec s =
      read(config("Phi3ForCausalLM", {{"rope_scaling", rope}, {"original_max_position_embeddings", 128}})).spec;
  EXPECT_EQ(s.ropes[0].scaling, RopeSpec::Scaling::kLong);
  EXPECT_EQ(s.ropes[0].factor, 4.0);
  EXPECT_EQ(s.ropes[0].long_divisors, (std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_DOUBLE_EQ(s.ropes[0].attention_factor, std::sqrt(1.0 + std::log(4.0) / std::log(128.0)));
  EXPECT_EQ(s.long_rope_from(), 128);
  json negative = rope;
  negative["long_factor"][3] = -1;
  refused(config("Phi3ForCausalLM", {{"rope_scaling", negative}}), "as many positive numbers");
  negative["long_factor"] = json::array({1});
  refused(config("Phi3ForCausalLM", {{"rope_scaling", negative}}), "must be a list of 8 numbers");
}

TEST(HfConfig, LayersWithoutRope) {
  const auto ropes = [](const json& c) {
    std::vector<int> all;
    for (const LayerSpec& layer : read(c).spec.layer) all.push_back(layer.rope);
    return all;
  };
  EXPECT_EQ(ropes(config("SmolLM3ForCausalLM")), (std::vector<int>{0, 0, 0, -1}));
  EXPECT_EQ(ropes(config("SmolLM3ForCausalLM", {{"no_rope_layers", {0, 1, 1, 0}}})), (std::vector<int>{-1, 0, 0, -1}));
  EXPECT_EQ(ropes(config("Exaone4ForCausalLM")), (std::vector<int>{0, 0, 0, -1}));
  json everywhere = config("Exaone4ForCausalLM");
  everywhere["sliding_window"] = nullptr;
  EXPECT_EQ(ropes(everywhere), (std::vector<int>{0, 0, 0, 0}));
  EXPECT_EQ(ropes(config("Cohere2ForCausalLM")), (std::vector<int>{0, 0, 0, -1}));
  refused(config("SmolLM3ForCausalLM", {{"no_rope_layers", {1}}}), "1 entries for 4 layers");
}

// Whatever a family's configuration leaves out, its spec is complete: every tensor has a place and no two the same.
TEST(HfConfig, QueriesThatGrow) {
  const json parameters = {
      {"rope_type", "yarn"},        {"factor", 16.0},        {"mscale", 1.0},
      {"mscale_all_dim", 1.0},      {"rope_theta", 10000.0}, {"original_max_position_embeddings", 64},
      {"llama_4_scaling_beta", 0.1}};
  const ModelSpec spec = read(config("Ministral3ForCausalLM", {{"rope_parameters", parameters}})).spec;
  ASSERT_EQ(spec.ropes.size(), 2u);
  EXPECT_EQ(std::tuple(spec.ropes[0].growth, spec.ropes[1].growth, spec.ropes[1].original_context),
            std::tuple(0.0, 0.1, 64));
  EXPECT_EQ(spec.ropes[0].attention_factor, 1.0);
  EXPECT_EQ(std::tuple(spec.layer[3].rope, spec.layer[3].query_rope, spec.head_dim), std::tuple(0, 1, 128));
  json changed = parameters;
  changed["llama_4_scaling_beta"] = 0.0;
  EXPECT_EQ(read(config("Ministral3ForCausalLM", {{"rope_parameters", changed}})).spec.ropes.size(), 1u);
  changed["llama_4_scaling_beta"] = -1.0;
  refused(config("Ministral3ForCausalLM", {{"rope_parameters", changed}}), "queries grow by -1");
  changed["llama_4_scaling_beta"] = 0.1;
  changed["partial_rotary_factor"] = 0.5;
  refused(config("Ministral3ForCausalLM", {{"rope_parameters", changed}}), "whole heads");
  refused(config("Ministral3ForCausalLM"), "\"rope_parameters\" is missing");
}

TEST(HfConfig, Hunyuan) {
  const json scaling = {{"rope_scaling", {{"type", "dynamic"}, {"alpha", 1000.0}, {"factor", 1.0}}}};
  const ModelSpec dense = read(config("HunYuanDenseV1ForCausalLM", scaling)).spec;
  EXPECT_EQ(dense.qk_norm, QkNorm::kTurnedHead);
  EXPECT_NEAR(dense.ropes[0].theta, 10000.0 * std::pow(1000.0, 16.0 / 14.0), 1e-3);
  const auto sparse = [](const json& changes) {
    json c = config("HunYuanMoEV1ForCausalLM", {{"num_experts", 8}, {"moe_topk", {2, 2, 2, 2}}});
    c.merge_patch(changes);
    return c;
  };
  const ModelSpec spec = read(sparse(json::object())).spec;
  EXPECT_EQ(std::tuple(spec.experts.count, spec.experts.used, spec.experts.ffn, spec.experts.shared_ffn),
            std::tuple(8, 2, 96, 96));
  refused(sparse({{"moe_topk", {2, 3, 2, 2}}}), "the same for all layers", ErrorCode::kUnsupported);
  refused(sparse({{"moe_topk", json::array()}}), "the same for all layers", ErrorCode::kUnsupported);
  refused(sparse({{"moe_topk", {2.5, 2.5}}}), "the same for all layers", ErrorCode::kUnsupported);
  refused(sparse({{"moe_topk", 9}}), "a token uses 9 of 8 experts");
  refused(config("HunYuanDenseV1ForCausalLM", {{"rope_scaling", {{"type", "dynamic"}, {"alpha", -1.0}}}}), "RoPE base");
}

TEST(HfConfig, EveryFamilyPlacesItsTensors) {
  for (const Family* family : families()) {
    for (const auto& [name, type] : family->classes) {
      SCOPED_TRACE(name);
      json all = config(name, kEverything);
      if (type == "granitemoehybrid") all.update({{"layer_types", json(4, "attention")}, {"num_local_experts", 0}});
      if (type == "hunyuan_v1_moe") all["num_experts"] = 8;
      const auto model = spec_from_config(all, "config.json");
      ASSERT_TRUE(model) << model.error().message;
      std::set<std::pair<std::string, std::tuple<std::int64_t, std::int64_t, std::int64_t>>> seen;
      for (const auto& [canonical, place] : places(all)) {
        EXPECT_FALSE(place.file_name.empty()) << canonical;
        EXPECT_TRUE(seen.insert({place.file_name, {place.slice, place.rows.begin, place.rows.stride}}).second)
            << canonical << " lies where another tensor does: " << place.file_name;
      }
      json by_type = all;
      by_type.erase("architectures");
      by_type["model_type"] = type;
      const auto typed = spec_from_config(by_type, "config.json");
      ASSERT_TRUE(typed) << typed.error().message;
      EXPECT_EQ(typed->spec.family, family->name);
    }
  }
}

}  // namespace
}  // namespace weir::load
