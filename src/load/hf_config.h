// A Hugging Face folder's text files -> ModelSpec, GenerationDefaults, chat templates.
//
// Meanings and defaults are those of the transformers library (5.x), which also reads the older spellings: rope_scaling
// + rope_theta beside rope_parameters, "type" beside "rope_type".
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "base/result.h"
#include "load/json_fields.h"
#include "load/model_files.h"
#include "load/spec_rules.h"

namespace weir::load {

// `file` is named in errors. Architectures: LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM,
// Gemma3ForCausalLM.
Result<SpecAndBiases> spec_from_config(const nlohmann::json& config, const std::string& file);

// Fills spec.ropes, and the rope of every layer that has a window when the family tells local layers from global ones.
// Sizes, context and layers are set already.
Status ropes_from_config(const JsonFields& config, ModelSpec& spec);

// The name a tensor has in the family's safetensors: "blk.3.attn_q.weight" -> "model.layers.3.self_attn.q_proj.weight".
std::string hf_tensor_name(std::string_view canonical, std::string_view family, std::string_view prefix);

Result<GenerationDefaults> generation_from_folder(const std::string& folder, const nlohmann::json& config, int vocab);

// `tokenizer_config` may be null (no such file).
Result<std::map<std::string, std::string>> templates_from_folder(const std::string& folder,
                                                                 const nlohmann::json& tokenizer_config);

}  // namespace weir::load
