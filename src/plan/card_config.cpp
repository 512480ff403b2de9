#include "plan/card_config.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "load/families/family.h"
#include "load/json_fields.h"

namespace weir::plan {
namespace {

using nlohmann::json;

// Architectures that weir has no family for: the class whose maths is nearest in parameters, KV and arithmetic.
struct Nearest {
  std::string_view architecture, as, note;
};

constexpr std::array kNearest = {
    Nearest{"Qwen3_5MoeForConditionalGeneration", "Qwen3NextForCausalLM", "read as Qwen3-Next; without vision"},
    Nearest{"Qwen3_5ForConditionalGeneration", "Qwen3NextForCausalLM",
            "read as Qwen3-Next with dense layers; without vision"},
    Nearest{"GlmMoeDsaForCausalLM", "DeepseekV32ForCausalLM",
            "read as DeepSeek V3.2, every layer with an indexer of its own"},
    Nearest{"KimiK25ForConditionalGeneration", "DeepseekV3ForCausalLM", "read as DeepSeek V3; without vision"},
    Nearest{"Llama4ForConditionalGeneration", "Glm4MoeForCausalLM",
            "read as GLM-4.5: all layers attend to everything, where three of four see chunks of 8192 tokens; without "
            "vision"},
    Nearest{"Qwen3VLMoeForConditionalGeneration", "Qwen3MoeForCausalLM", "without vision"},
    Nearest{"Glm4vMoeForConditionalGeneration", "Glm4MoeForCausalLM", "without vision"},
};

std::string text_of(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

std::string architecture_of(const json& config) {
  const auto found = config.find("architectures");
  const bool named = found != config.end() && found->is_array() && !found->empty() && found->front().is_string();
  return named ? found->front().get<std::string>() : "";
}

std::int64_t count_of(const json& object, const char* key, std::int64_t otherwise) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_integer() ? found->get<std::int64_t>() : otherwise;
}

void set_default(json& config, const char* key, json value) {
  if (!config.contains(key)) config[key] = std::move(value);
}

void rename(json& config, const char* from, const char* to) {
  if (const auto found = config.find(from); found != config.end()) config[to] = *found;
}

// Qwen 3.5's mixtures say nothing of a dense size, its dense models nothing of experts.
void complete_qwen35(json& config) {
  if (config.contains("num_experts")) {
    if (!config.contains("intermediate_size")) rename(config, "moe_intermediate_size", "intermediate_size");
    return;
  }
  rename(config, "intermediate_size", "moe_intermediate_size");
  config["num_experts"] = config["num_experts_per_tok"] = 1;
  set_default(config, "shared_expert_intermediate_size", 1);
  json dense = json::array();
  const auto layers = std::clamp<std::int64_t>(count_of(config, "num_hidden_layers", 0), 0, load::kLayerRange.high);
  for (std::int64_t i = 0; i < layers; ++i) dense.push_back(i);
  config["mlp_only_layers"] = std::move(dense);
}

void complete_llama4(json& config) {
  rename(config, "num_local_experts", "n_routed_experts");
  rename(config, "intermediate_size", "moe_intermediate_size");
  rename(config, "intermediate_size_mlp", "intermediate_size");
  config["n_shared_experts"] = 1;
  config.erase("layer_types");
  config.erase("rope_scaling");  // Scout's ramp has no width, which other families refuse; planning needs none
  const auto layers = std::clamp<std::int64_t>(count_of(config, "num_hidden_layers", 0), 0, load::kLayerRange.high);
  const auto step = std::max<std::int64_t>(1, count_of(config, "interleave_moe_layer_step", 1));
  json types = json::array();
  for (std::int64_t i = 0; i < layers; ++i) types.push_back((i + 1) % step == 0 ? "sparse" : "dense");
  config["mlp_layer_types"] = std::move(types);
}

double bits_with_scales(double bits, std::int64_t group, double scale_bits) {
  return group > 0 ? bits + scale_bits / static_cast<double>(group) : bits;
}

// "config_groups" of compressed-tensors and ModelOpt: the first one's weights.
std::optional<double> bits_of_groups(const json& quantisation) {
  const auto groups = quantisation.find("config_groups");
  if (groups == quantisation.end() || !groups->is_object() || groups->empty()) return std::nullopt;
  const json& first = *groups->begin();
  if (!first.is_object()) return std::nullopt;
  const auto weights = first.find("weights");
  if (weights == first.end() || !weights->is_object()) return std::nullopt;
  const auto bits = count_of(*weights, "num_bits", 0);
  if (bits < 1 || bits > 32) return std::nullopt;
  const double scale = text_of(*weights, "type") == "float" && bits == 4 ? 8 : 16;  // NVFP4's scales are FP8
  return bits_with_scales(static_cast<double>(bits), count_of(*weights, "group_size", 0), scale);
}

bool quantised_to_floats(const json& quantisation) {
  if (text_of(quantisation, "quant_algo").find("FP") != std::string::npos) return true;
  const auto groups = quantisation.find("config_groups");
  if (groups == quantisation.end() || !groups->is_object() || groups->empty()) return false;
  const json& first = *groups->begin();
  return first.is_object() && first.contains("weights") && first["weights"].is_object() &&
         text_of(first["weights"], "type") == "float";
}

// Whether attention is left as it was: then only the experts are quantised, in the checkpoints that there are.
bool spares_attention(const json& quantisation) {
  for (const char* key : {"ignore", "exclude_modules", "modules_to_not_convert"}) {
    const auto list = quantisation.find(key);
    if (list == quantisation.end() || !list->is_array()) continue;
    for (const json& entry : *list) {
      if (entry.is_string() && entry.get_ref<const std::string&>().find("self_attn") != std::string::npos) return true;
    }
  }
  return false;
}

}  // namespace

CardConfig card_config(const json& published) {
  CardConfig card{published, ""};
  json& config = card.config;
  if (!config.is_object()) return card;
  const std::string architecture = architecture_of(config);
  const auto* nearest = std::ranges::find(kNearest, architecture, &Nearest::architecture);
  if (nearest == kNearest.end()) return card;
  if (const auto text = published.find("text_config"); text != published.end() && text->is_object()) {
    config = *text;
    for (const char* key : {"quantization_config", "tie_word_embeddings", "dtype", "torch_dtype"}) {
      if (const auto outer = published.find(key); outer != published.end()) set_default(config, key, *outer);
    }
  }
  config["architectures"] = json::array({nearest->as});
  if (architecture.starts_with("Qwen3_5")) complete_qwen35(config);
  if (architecture.starts_with("Llama4")) complete_llama4(config);
  card.note = fmt::format("{}: {}", architecture, nearest->note);
  return card;
}

Result<WeightTypes> weight_types_of_config(const json& config, const std::string& file) {
  WeightTypes types;
  const std::string dtype = config.contains("dtype") ? text_of(config, "dtype") : text_of(config, "torch_dtype");
  if (dtype == "float32") types = {32, 32, 32, 32, "f32", 32};
  if (dtype == "float16") types.name = "fp16";
  const auto found = config.find("quantization_config");
  if (found == config.end() || !found->is_object()) return types;
  const json& quantisation = *found;
  std::string method = text_of(quantisation, "quant_method");
  if (method.empty()) method = text_of(quantisation, "quant_algo");
  std::transform(method.begin(), method.end(), method.begin(), [](unsigned char c) { return std::tolower(c); });

  double bits = 0;
  if (method == "fp8" || method == "fbgemm_fp8") {
    bits = quantisation.contains("weight_block_size") ? 8 + 32.0 / (128 * 128) : 8;
  } else if (method == "mxfp4") {
    types.expert_bits = 4 + 8.0 / 32;
    types.name = "mxfp4 experts";
    return types;
  } else if (const auto of_groups = bits_of_groups(quantisation)) {
    bits = *of_groups;
  } else if (const auto plain = count_of(quantisation, "bits", 0); plain >= 1 && plain <= 16) {
    // A scale of 16 bits and a zero point per group.
    bits = bits_with_scales(static_cast<double>(plain), count_of(quantisation, "group_size", 128),
                            16 + static_cast<double>(plain));
  } else if (text_of(quantisation, "quant_algo").find("FP4") != std::string::npos) {
    bits = 4 + 8.0 / 16;
  } else if (text_of(quantisation, "quant_algo").find("FP8") != std::string::npos) {
    bits = 8;
  } else {
    return fail_at("quantization_config", ErrorCode::kUnsupported,
                   "{}: \"quantization_config\" has the method \"{}\" and neither \"bits\" nor \"config_groups\"; take "
                   "it out and give the types of the weights by hand",
                   file, method.substr(0, 60));
  }
  types.expert_bits = bits;
  // Integers below 8 bits are weights only; floats meet activations of their own width.
  const bool floats = method.find("fp") != std::string::npos || quantised_to_floats(quantisation);
  types.compute_bits = bits >= 8 ? 8 : floats ? 4 : 16;
  types.integer = bits >= 8 && !floats;
  if (!spares_attention(quantisation)) types.linear_bits = bits;
  types.name = fmt::format("{} ({:.4g} bits)", method, bits);
  return types;
}

}  // namespace weir::plan
