#include "load/hf_wrappers.h"

#include <algorithm>
#include <array>

#include "load/families/family.h"

namespace weir::load {
namespace {

using nlohmann::json;

struct Wrapper {
  std::string_view name, type;  // the class and its "model_type"
  std::string_view text;        // the "model_type" of its text part, where that does not say
};

constexpr std::array kWrappers = {
    Wrapper{"Gemma3ForConditionalGeneration", "gemma3", "gemma3_text"},
    Wrapper{"Mistral3ForConditionalGeneration", "mistral3", "mistral"},
    Wrapper{"LlavaForConditionalGeneration", "llava", "llama"},
    Wrapper{"LlavaNextForConditionalGeneration", "llava_next", "llama"},
    Wrapper{"LlavaOnevisionForConditionalGeneration", "llava_onevision", "qwen2"},
    Wrapper{"Qwen2VLForConditionalGeneration", "qwen2_vl", "qwen2_vl_text"},
    Wrapper{"Qwen2_5_VLForConditionalGeneration", "qwen2_5_vl", "qwen2_5_vl_text"},
    Wrapper{"Qwen3VLForConditionalGeneration", "qwen3_vl", "qwen3_vl_text"},
    Wrapper{"Qwen3VLMoeForConditionalGeneration", "qwen3_vl_moe", "qwen3_vl_moe_text"},
    Wrapper{"Qwen3_5ForConditionalGeneration", "qwen3_5", "qwen3_5_text"},
    Wrapper{"Qwen3_5MoeForConditionalGeneration", "qwen3_5_moe", "qwen3_5_moe_text"},
    Wrapper{"InternVLForConditionalGeneration", "internvl", "qwen2"},
    Wrapper{"Idefics3ForConditionalGeneration", "idefics3", "llama"},
    Wrapper{"SmolVLMForConditionalGeneration", "smolvlm", "llama"},
    Wrapper{"VoxtralForConditionalGeneration", "voxtral", "llama"},
};

// "model_type" of text parts: the family's type that it is, and what the transformers library (5.24) assumes where the
// part is silent. Text parts are often written as what differs from that, sizes included, which a folder of the
// language model alone always states.
const json& text_types() {
  static const json kTypes = json::parse(R"({
    "gemma3_text": {"as": "gemma3_text", "defaults": {"vocab_size": 262208, "hidden_size": 2304,
      "intermediate_size": 9216, "num_hidden_layers": 26, "num_attention_heads": 8, "num_key_value_heads": 4}},
    "llama": {"as": "llama", "defaults": {"vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 11008,
      "num_hidden_layers": 32, "num_attention_heads": 32, "max_position_embeddings": 2048}},
    "mistral": {"as": "mistral", "defaults": {"vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 14336,
      "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
      "max_position_embeddings": 131072}},
    "ministral3": {"as": "ministral3", "defaults": {"vocab_size": 131072, "hidden_size": 4096,
      "intermediate_size": 14336, "num_hidden_layers": 34, "num_attention_heads": 32, "num_key_value_heads": 8,
      "max_position_embeddings": 262144, "rope_parameters": {"rope_type": "yarn", "rope_theta": 1000000.0,
      "factor": 16.0, "original_max_position_embeddings": 16384, "beta_fast": 32.0, "beta_slow": 1.0,
      "mscale_all_dim": 1.0, "mscale": 1.0, "llama_4_scaling_beta": 0.1}}},
    "qwen2": {"as": "qwen2", "defaults": {"vocab_size": 151936, "hidden_size": 4096, "intermediate_size": 22016,
      "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32,
      "max_position_embeddings": 32768}},
    "qwen2_vl_text": {"as": "qwen2", "defaults": {"vocab_size": 152064, "hidden_size": 8192,
      "intermediate_size": 29568, "num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 8,
      "max_position_embeddings": 32768, "rms_norm_eps": 1e-5, "rope_theta": 1000000.0, "max_window_layers": 80}},
    "qwen2_5_vl_text": {"as": "qwen2", "defaults": {"vocab_size": 152064, "hidden_size": 8192,
      "intermediate_size": 29568, "num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 8,
      "max_position_embeddings": 32768, "rms_norm_eps": 1e-5, "rope_theta": 1000000.0, "max_window_layers": 80}},
    "qwen3": {"as": "qwen3", "defaults": {"vocab_size": 151936, "hidden_size": 4096, "intermediate_size": 22016,
      "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32,
      "max_position_embeddings": 32768}},
    "qwen3_vl_text": {"as": "qwen3", "defaults": {"vocab_size": 151936, "hidden_size": 4096,
      "intermediate_size": 22016, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32,
      "max_position_embeddings": 128000, "rope_theta": 500000.0}},
    "qwen3_vl_moe_text": {"as": "qwen3_moe", "defaults": {"vocab_size": 151936, "hidden_size": 2048,
      "intermediate_size": 5632, "num_hidden_layers": 24, "num_attention_heads": 16, "num_key_value_heads": 16,
      "max_position_embeddings": 128000, "rope_theta": 500000.0, "num_local_experts": 60, "num_experts_per_tok": 4,
      "moe_intermediate_size": 1408, "norm_topk_prob": true}},
    "qwen3_5_text": {"as": "qwen3_5_text", "defaults": {"vocab_size": 248320, "hidden_size": 4096,
      "intermediate_size": 12288, "num_hidden_layers": 32, "num_attention_heads": 16, "num_key_value_heads": 4,
      "linear_num_key_heads": 16, "linear_num_value_heads": 32, "linear_key_head_dim": 128,
      "linear_value_head_dim": 128}},
    "qwen3_5_moe_text": {"as": "qwen3_5_moe_text", "defaults": {"vocab_size": 248320, "hidden_size": 2048,
      "num_hidden_layers": 40, "num_attention_heads": 16, "num_key_value_heads": 2, "num_experts": 256,
      "num_experts_per_tok": 8, "moe_intermediate_size": 512, "shared_expert_intermediate_size": 512,
      "linear_num_key_heads": 16, "linear_num_value_heads": 32, "linear_key_head_dim": 128,
      "linear_value_head_dim": 128}}
  })");
  return kTypes;
}

const Wrapper* wrapper_of(const json& object) {
  const auto is = [](std::string_view Wrapper::* key, const json& name) {
    return [key, &name](const Wrapper& wrapper) { return name.is_string() && name == std::string(wrapper.*key); };
  };
  if (!object.is_object()) return nullptr;
  const Wrapper* found = kWrappers.end();
  if (const auto list = object.find("architectures"); list != object.end() && !list->is_null()) {
    if (!list->is_array() || list->empty()) return nullptr;
    found = std::ranges::find_if(kWrappers, is(&Wrapper::name, list->front()));
  } else if (const auto type = object.find("model_type"); type != object.end()) {
    found = std::ranges::find_if(kWrappers, is(&Wrapper::type, *type));
  }
  return found == kWrappers.end() ? nullptr : found;
}

std::string family_type(const std::string& type) {
  const auto known = text_types().find(type);
  return known == text_types().end() ? type : (*known)["as"].get<std::string>();
}

bool is_served(std::string_view type) {
  return std::ranges::any_of(families(), [&](const Family* family) {
    return std::ranges::find(family->classes, type, &Family::HfClass::type) != family->classes.end();
  });
}

}  // namespace

Result<std::optional<TextPart>> text_part_of(const JsonFields& config, const json& object) {
  const Wrapper* wrapper = wrapper_of(object);
  if (wrapper == nullptr) return std::optional<TextPart>();
  WEIR_TRY(const auto inner, config.object("text_config"));
  TextPart part;
  // Older configurations have the text's keys among the others.
  part.config = inner ? object["text_config"] : object;
  part.key = inner ? "text_config." : "";
  std::string type(wrapper->text);
  if (inner) {
    WEIR_TRY(const auto own, inner->string("model_type"));
    if (own) type = *own;
  }
  part.type = family_type(type);
  if (!is_served(part.type)) {
    return fail_at("text_config", ErrorCode::kUnsupported,
                   "{}: the language model in this {} is a \"{}\", which is not supported", config.file(),
                   wrapper->name, type.substr(0, 60));
  }
  if (const auto known = text_types().find(type); known != text_types().end()) {
    for (const auto& [key, value] : (*known)["defaults"].items()) {
      if (!part.config.contains(key)) part.config[key] = value;
    }
  }
  // Classes and versions of the library put this here or there, or nowhere; then the files decide.
  if (!part.config.contains("tie_word_embeddings"))
    part.config["tie_word_embeddings"] = object.value("tie_word_embeddings", json(true));
  return part;
}

std::vector<std::string_view> wrapper_classes() {
  std::vector<std::string_view> names;
  for (const Wrapper& wrapper : kWrappers) names.push_back(wrapper.name);
  return names;
}

const json& holder_of(const char* key, const json& config) {
  if (wrapper_of(config) == nullptr || config.contains(key)) return config;
  const auto text = config.find("text_config");
  return text != config.end() && text->is_object() && text->contains(key) ? *text : config;
}

HfPrefix hf_prefix(bool wrapped, const std::function<bool(std::string_view name)>& has) {
  static constexpr std::string_view kHead = "lm_head.";
  struct Form {
    std::string_view layers, head;
    bool alone;  // a language model alone may be named so
  };
  // A checkpoint of the bare model (no language head class) lacks the prefix.
  static constexpr Form kForms[] = {{"", kHead, true},
                                    {"model.language_model.", kHead, false},
                                    {"language_model.model.", "language_model.lm_head.", false},
                                    {"language_model.", kHead, false},
                                    {"model.text_model.", kHead, false}};
  for (const Form& form : kForms) {
    if ((wrapped || form.alone) && has(std::string(form.layers) + "embed_tokens.weight"))
      return {std::string(form.layers), std::string(form.head)};
  }
  return {"model.", std::string(kHead)};
}

}  // namespace weir::load
