// A Hugging Face folder's text files -> ModelSpec, GenerationDefaults, chat templates.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "base/result.h"
#include "load/families/family.h"
#include "load/model_files.h"

namespace weir::load {

// `file` is named in errors. The families (families/) say what architectures there are.
Result<ParsedModel> spec_from_config(const nlohmann::json& config, const std::string& file);

Result<GenerationDefaults> generation_from_folder(const std::string& folder, const nlohmann::json& config, int vocab);

// `tokenizer_config` may be null (no such file).
Result<std::map<std::string, std::string>> templates_from_folder(const std::string& folder,
                                                                 const nlohmann::json& tokenizer_config);

}  // namespace weir::load
