// config.json files beyond those that weir serves: what a card needs of them, in the keys of the nearest family.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "base/result.h"
#include "plan/model_card.h"

namespace weir::plan {

struct CardConfig {
  nlohmann::json config;  // for load::spec_from_config
  std::string note;       // as what another architecture is read; empty: as itself
};

// Takes a language model out of one that also sees ("text_config"), and renames what has a family's maths under other
// names. What it does not know stays as it is.
CardConfig card_config(const nlohmann::json& published);

// By "quantization_config" and "dtype". kUnsupported names a method that it does not know.
Result<WeightTypes> weight_types_of_config(const nlohmann::json& config, const std::string& file);

}  // namespace weir::plan
