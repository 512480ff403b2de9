// GGUF metadata -> ModelSpec and GenerationDefaults. The families (families/) say what architectures there are.
#pragma once

#include <string>

#include "base/result.h"
#include "load/families/family.h"
#include "load/gguf.h"
#include "load/model_files.h"

namespace weir::load {

// `file` is named in errors.
Result<ParsedModel> spec_from_gguf(const GgufFile& gguf, const std::string& file);

// Also refuses special token ids outside the vocabulary.
Result<GenerationDefaults> generation_from_gguf(const GgufFile& gguf, int vocab, const std::string& file);

Result<std::map<std::string, std::string>> templates_from_gguf(const GgufFile& gguf, const std::string& file);

}  // namespace weir::load
