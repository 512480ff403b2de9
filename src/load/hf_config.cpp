#include "load/hf_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "load/limits.h"

namespace weir::load {
namespace {

using nlohmann::json;

struct Architecture {
  std::string_view class_name;  // config.json's architectures[0]
  std::string_view model_type;
  std::string_view family;
};

constexpr std::array kArchitectures = {
    Architecture{"LlamaForCausalLM", "llama", "llama"},         Architecture{"MistralForCausalLM", "mistral", "llama"},
    Architecture{"Qwen2ForCausalLM", "qwen2", "qwen2"},         Architecture{"Qwen3ForCausalLM", "qwen3", "qwen3"},
    Architecture{"Gemma3ForCausalLM", "gemma3_text", "gemma3"},
};

// What transformers assumes where Gemma's and Qwen 3's configuration is silent.
constexpr std::int64_t kGemmaHeadDim = 256, kQwen3HeadDim = 128, kGemmaContext = 131072, kGemmaWindow = 4096,
                       kGemmaPattern = 6;
constexpr std::int64_t kMistralWindow = 4096, kQwenWindow = 4096, kQwenMaxWindowLayers = 28;
constexpr double kGemmaQueryScalar = 256.0;

Result<Architecture> find_architecture(const JsonFields& config) {
  std::string name;
  if (const json* list = config.member("architectures"); list != nullptr) {
    if (!list->is_array() || list->empty() || !list->front().is_string()) {
      return fail_at("architectures", ErrorCode::kCorruptFile, "{}: \"architectures\" is no list of names",
                     config.file());
    }
    name = list->front().get<std::string>();
    const auto found = std::ranges::find(kArchitectures, name, &Architecture::class_name);
    if (found != kArchitectures.end()) return *found;
  } else {
    WEIR_TRY(const auto type, config.string("model_type"));
    if (!type)
      return fail(ErrorCode::kCorruptFile, "{}: neither \"architectures\" nor \"model_type\" is there", config.file());
    name = *type;
    const auto found = std::ranges::find(kArchitectures, name, &Architecture::model_type);
    if (found != kArchitectures.end()) return *found;
  }
  std::array<std::string_view, kArchitectures.size()> supported;
  std::ranges::transform(kArchitectures, supported.begin(), &Architecture::class_name);
  return unsupported_architecture(config.file(), "architecture", name.substr(0, 100), supported);
}

Status read_sizes(const JsonFields& config, const Architecture& architecture, ModelSpec& spec) {
  const bool gemma = architecture.family == "gemma3";
  WEIR_TRY(spec.layers, config.required("num_hidden_layers", kLayerRange));
  WEIR_TRY(spec.hidden, config.required("hidden_size", kHiddenRange));
  WEIR_TRY(spec.heads, config.required("num_attention_heads", kHeadRange));
  WEIR_TRY(spec.ffn, config.required("intermediate_size", kFfnRange));
  WEIR_TRY(spec.vocab, config.required("vocab_size", kVocabRange));
  WEIR_TRY(const auto context, config.integer("max_position_embeddings", kContextRange));
  if (!context && !gemma) {
    return fail_at("max_position_embeddings", ErrorCode::kCorruptFile, "{}: \"max_position_embeddings\" is missing",
                   config.file());
  }
  spec.context_length = context.value_or(kGemmaContext);
  WEIR_TRY(const auto kv_heads, config.integer("num_key_value_heads", kHeadRange));
  spec.kv_heads = static_cast<int>(kv_heads.value_or(spec.heads));
  WEIR_TRY(const auto head_dim, config.integer("head_dim", kHeadDimRange));
  if (head_dim) {
    spec.head_dim = static_cast<int>(*head_dim);
  } else if (gemma || architecture.family == "qwen3") {
    spec.head_dim = static_cast<int>(gemma ? kGemmaHeadDim : kQwen3HeadDim);
  } else {
    spec.head_dim = spec.hidden / spec.heads;
    if (spec.hidden % spec.heads != 0 || spec.head_dim > kHeadDimRange.high) {
      return fail(ErrorCode::kCorruptFile, "{}: hidden_size {} cannot be split into {} heads of up to {}",
                  config.file(), spec.hidden, spec.heads, kHeadDimRange.high);
    }
  }
  return {};
}

Status read_activation(const JsonFields& config, ModelSpec& spec) {
  const char* key = config.has("hidden_activation") ? "hidden_activation" : "hidden_act";
  WEIR_TRY(const auto name, config.string(key));
  const std::string fallback = spec.family == "gemma3" ? "gelu_pytorch_tanh" : "silu";
  const std::string& activation = name ? *name : fallback;
  if (activation == "silu" || activation == "swish") {
    spec.activation = Activation::kSilu;
  } else if (activation == "gelu_pytorch_tanh" || activation == "gelu_new") {
    spec.activation = Activation::kGeluTanh;
  } else {
    return fail_at(key, ErrorCode::kUnsupported,
                   "{}: activation \"{}\" is not supported; silu and gelu_pytorch_tanh are", config.file(),
                   activation.substr(0, 60));
  }
  return {};
}

Status read_biases(const JsonFields& config, const Architecture& architecture, Biases& biases) {
  const auto presence = [](const std::optional<bool>& flag) {
    return flag.value_or(false) ? Presence::kRequired : Presence::kAbsent;
  };
  if (architecture.family == "qwen2") {
    biases.qkv = Presence::kRequired;
    return {};
  }
  if (architecture.model_type == "mistral") return {};
  WEIR_TRY(const auto attention, config.boolean("attention_bias"));
  biases.qkv = biases.attention_output = presence(attention);
  if (architecture.family == "llama") {
    WEIR_TRY(const auto mlp, config.boolean("mlp_bias"));
    biases.ffn = presence(mlp);
  }
  return {};
}

// The window of the local layers; 0: none. What "no key" and "null" mean differs: null always says no window.
Result<int> read_window(const JsonFields& config, const Architecture& architecture, const json& object) {
  const bool named = object.contains("sliding_window");
  WEIR_TRY(const auto window, config.integer("sliding_window", kWindowRange));
  if (architecture.family == "qwen2" || architecture.family == "qwen3") {
    WEIR_TRY(const auto use, config.boolean("use_sliding_window"));
    return static_cast<int>(use.value_or(false) ? window.value_or(named ? 0 : kQwenWindow) : 0);
  }
  if (architecture.model_type == "mistral") return static_cast<int>(window.value_or(named ? 0 : kMistralWindow));
  if (architecture.family == "gemma3") return static_cast<int>(window.value_or(named ? 0 : kGemmaWindow));
  return 0;
}

// Which layers are local, by layer_types or by the family's rule where that is absent.
Result<std::vector<bool>> local_layers(const JsonFields& config, const Architecture& architecture, int layers) {
  std::vector<bool> local(static_cast<std::size_t>(layers));
  if (architecture.family == "llama") {
    std::fill(local.begin(), local.end(), architecture.model_type == "mistral");
    return local;
  }
  if (const json* types = config.member("layer_types"); types != nullptr) {
    if (!types->is_array() || types->size() != local.size()) {
      return fail_at("layer_types", ErrorCode::kCorruptFile, "{}: \"layer_types\" has {} entries for {} layers",
                     config.file(), types->size(), layers);
    }
    for (std::size_t i = 0; i < local.size(); ++i) {
      const json& type = (*types)[i];
      if (type != "sliding_attention" && type != "full_attention") {
        return fail_at("layer_types", ErrorCode::kUnsupported,
                       "{}: layer {} has another type than sliding_attention and full_attention", config.file(), i);
      }
      local[i] = type == "sliding_attention";
    }
    return local;
  }
  if (architecture.family == "gemma3") {
    const char* key = config.has("sliding_window_pattern") ? "sliding_window_pattern" : "_sliding_window_pattern";
    WEIR_TRY(const auto pattern, config.integer(key, {1, kLayerRange.high}));
    for (std::size_t i = 0; i < local.size(); ++i)
      local[i] = (static_cast<std::int64_t>(i) + 1) % pattern.value_or(kGemmaPattern) != 0;
    return local;
  }
  WEIR_TRY(const auto full_layers, config.integer("max_window_layers", {0, 1 << 30}));
  for (std::size_t i = 0; i < local.size(); ++i)
    local[i] = static_cast<std::int64_t>(i) >= full_layers.value_or(kQwenMaxWindowLayers);
  return local;
}

Status add_gemma(const JsonFields& config, ModelSpec& spec) {
  spec.post_norms = true;
  spec.norm_weight_offset = 1.0f;  // the file stores w - 1
  spec.embedding_scale = static_cast<float>(std::sqrt(static_cast<double>(spec.hidden)));
  WEIR_TRY(const auto scalar, config.number("query_pre_attn_scalar"));
  if (scalar && *scalar <= 0) {
    return fail_at("query_pre_attn_scalar", ErrorCode::kCorruptFile,
                   "{}: \"query_pre_attn_scalar\" is {}; a positive number expected", config.file(), *scalar);
  }
  spec.attention_scale = static_cast<float>(1.0 / std::sqrt(scalar.value_or(kGemmaQueryScalar)));
  WEIR_TRY(const auto attention_cap, config.number("attn_logit_softcapping"));
  WEIR_TRY(const auto final_cap, config.number("final_logit_softcapping"));
  spec.attention_softcap = static_cast<float>(attention_cap.value_or(0.0));
  spec.final_softcap = static_cast<float>(final_cap.value_or(0.0));
  WEIR_TRY(const auto bidirectional, config.boolean("use_bidirectional_attention"));
  if (bidirectional.value_or(false)) {
    return fail_at("use_bidirectional_attention", ErrorCode::kUnsupported,
                   "{}: bidirectional attention (an embedding model) is not supported", config.file());
  }
  return {};
}

Status refuse_quantised(const JsonFields& config) {
  WEIR_TRY(const auto quantisation, config.object("quantization_config"));
  if (!quantisation) return {};
  WEIR_TRY(const auto method, quantisation->string("quant_method"));
  return fail_at("quantization_config", ErrorCode::kUnsupported,
                 "{}: weights quantised with \"{}\" are not supported; use the unquantised model or a GGUF file",
                 config.file(), method.value_or("an unnamed method"));
}

}  // namespace

Result<SpecAndBiases> spec_from_config(const json& object, const std::string& file) {
  if (!object.is_object()) return fail(ErrorCode::kCorruptFile, "{}: not a JSON object", file);
  const JsonFields config(object, file);
  WEIR_TRY(const auto architecture, find_architecture(config));
  WEIR_RETURN_IF_ERROR(refuse_quantised(config));
  SpecAndBiases result;
  ModelSpec& spec = result.spec;
  spec.family = architecture.family;
  WEIR_TRY(const auto name, config.string("_name_or_path"));
  spec.name = name.value_or("");
  WEIR_RETURN_IF_ERROR(read_sizes(config, architecture, spec));
  WEIR_RETURN_IF_ERROR(read_activation(config, spec));
  WEIR_RETURN_IF_ERROR(read_biases(config, architecture, result.biases));
  WEIR_TRY(const auto eps, config.number("rms_norm_eps"));
  spec.rms_eps = static_cast<float>(eps.value_or(1e-6));
  WEIR_TRY(const auto tied, config.boolean("tie_word_embeddings"));
  spec.tied_embeddings = tied.value_or(spec.family == "gemma3");
  spec.qk_norm = spec.family == "qwen3" || spec.family == "gemma3";
  spec.attention_scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(spec.head_dim)));
  if (spec.family == "gemma3") WEIR_RETURN_IF_ERROR(add_gemma(config, spec));

  WEIR_TRY(const int window, read_window(config, architecture, object));
  WEIR_TRY(const auto local, local_layers(config, architecture, spec.layers));
  spec.layer.resize(local.size());
  for (std::size_t i = 0; i < local.size(); ++i) spec.layer[i].window = local[i] ? window : 0;
  WEIR_RETURN_IF_ERROR(ropes_from_config(config, spec));
  spec.context_length = stretched_context(spec.ropes[0], spec.context_length);
  if (spec.ropes.size() > 1) {
    for (std::size_t i = 0; i < local.size(); ++i) spec.layer[i].rope = local[i] ? 1 : 0;
  }
  WEIR_RETURN_IF_ERROR(check_spec(spec, file));
  return result;
}

std::string hf_tensor_name(std::string_view canonical, std::string_view family, std::string_view prefix) {
  struct Pair {
    std::string_view canonical, hf;
  };
  static constexpr std::array kLayerNames = {
      Pair{"attn_norm", "input_layernorm"},
      Pair{"attn_q", "self_attn.q_proj"},
      Pair{"attn_k", "self_attn.k_proj"},
      Pair{"attn_v", "self_attn.v_proj"},
      Pair{"attn_output", "self_attn.o_proj"},
      Pair{"attn_q_norm", "self_attn.q_norm"},
      Pair{"attn_k_norm", "self_attn.k_norm"},
      Pair{"ffn_gate", "mlp.gate_proj"},
      Pair{"ffn_up", "mlp.up_proj"},
      Pair{"ffn_down", "mlp.down_proj"},
      Pair{"post_attention_norm", "post_attention_layernorm"},
      Pair{"post_ffw_norm", "post_feedforward_layernorm"},
  };
  if (canonical == "token_embd.weight") return fmt::format("{}embed_tokens.weight", prefix);
  if (canonical == "output_norm.weight") return fmt::format("{}norm.weight", prefix);
  if (canonical == "output.weight") return "lm_head.weight";
  // blk.N.NAME.weight
  const auto number_begin = canonical.find('.') + 1, number_end = canonical.find('.', number_begin),
             kind = canonical.rfind('.');
  const std::string_view number = canonical.substr(number_begin, number_end - number_begin);
  const std::string_view name = canonical.substr(number_end + 1, kind - number_end - 1);
  std::string_view hf = family == "gemma3" ? "pre_feedforward_layernorm" : "post_attention_layernorm";  // ffn_norm
  if (name != "ffn_norm") hf = std::ranges::find(kLayerNames, name, &Pair::canonical)->hf;
  return fmt::format("{}layers.{}.{}{}", prefix, number, hf, canonical.substr(kind));
}

}  // namespace weir::load
