// The models known by name: data/models.json.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"

namespace weir::plan {

struct KnownModel {
  std::string name;
  std::vector<std::string> aliases;
  nlohmann::json config;
};

const std::vector<KnownModel>& known_model_table();

struct NamedModel {
  const KnownModel* model = nullptr;
  std::string types;  // that the name says: "fp8" of "Qwen3-32B-FP8"; may be empty
};

// Organisation, case, dashes, and what a name says of tuning, dates and types do not matter. kNotFound with the
// nearest.
Result<NamedModel> find_known_model(const std::string& text);

}  // namespace weir::plan
