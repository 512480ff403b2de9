// Report: what a planner's command found, once for people and once for programs (--json). Both say the same figures.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace weir::plan {

struct Report {
  std::string text;             // ends with a newline
  nlohmann::ordered_json json;  // an object
};

}  // namespace weir::plan
