// JSON -> values. Everything in them is marked as the caller's.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>

#include "text/jinja/value.h"

namespace weir::text::jinja {

// How much there is, for the budget of a rendering.
struct InputSize {
  std::uint64_t values = 0, bytes = 0;
};
void measure(const nlohmann::ordered_json& json, InputSize& size);

// Raises for what is nested too deep.
Value from_json(const nlohmann::ordered_json& json, Budget& budget);

}  // namespace weir::text::jinja
