// GGUF metadata -> ModelSpec and GenerationDefaults, for the architectures llama, qwen2, qwen3 and gemma3.
// Key names and defaults: the GGUF specification.
#pragma once

#include <string>

#include "base/result.h"
#include "load/gguf.h"
#include "load/model_files.h"
#include "load/spec_rules.h"

namespace weir::load {

// `file` is named in errors.
Result<SpecAndBiases> spec_from_gguf(const GgufFile& gguf, const std::string& file);

// Also refuses special token ids outside the vocabulary.
Result<GenerationDefaults> generation_from_gguf(const GgufFile& gguf, int vocab, const std::string& file);

Result<std::map<std::string, std::string>> templates_from_gguf(const GgufFile& gguf, const std::string& file);

}  // namespace weir::load
