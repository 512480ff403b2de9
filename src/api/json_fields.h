// Strict reading of request fields: every value has the type and range it should have, or the error names the field,
// what it holds and what is allowed. An absent field and a null are the same.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace weir::api {

// Objects keep the order of their keys: chat templates print tools and schemas in it.
using Json = nlohmann::ordered_json;

// What a document may hold: a parsed value takes some ten times as much memory as its text, so documents beyond these
// are refused from their text alone.
struct JsonLimits {
  std::size_t list_numbers = kMaxListNumbers;  // in one list of numbers

  static constexpr std::size_t kMaxListNumbers = std::size_t{4} << 20;  // in all lists of numbers together
  static constexpr std::size_t kMaxValues = std::size_t{1} << 20;       // all others
};

// Text -> JSON. Refuses what is not UTF-8, NaN and Infinity, anything after the value, and nesting so deep that walking
// it could exhaust the stack.
Result<Json> parse_json(std::string_view text, const JsonLimits& limits = {});

// What a value is, for messages: "a string", "the number 1.5".
std::string describe_json(const Json& value);

class Fields {
 public:
  // `prefix`: put before names in errors, e.g. "stream_options.".
  explicit Fields(const Json& object, std::string prefix = {}) : object_(&object), prefix_(std::move(prefix)) {}

  const Json* find(std::string_view name) const;
  std::string path(std::string_view name) const { return prefix_ + std::string(name); }

  // Each sets `out` when the field is there.
  Status integer(std::string_view name, std::int64_t min, std::int64_t max, std::int64_t& out) const;
  Status integer(std::string_view name, std::int64_t min, std::int64_t max, std::optional<std::int64_t>& out) const;
  // `above_min`: min itself is not allowed.
  Status number(std::string_view name, double min, double max, float& out, bool above_min = false) const;
  Status boolean(std::string_view name, bool& out) const;
  Status string(std::string_view name, std::string& out) const;

 private:
  const Json* object_;
  std::string prefix_;
};

// A JSON number that is a whole one in [min, max]; `what` names it in the error.
Result<std::int64_t> to_integer(const Json& value, const std::string& what, std::int64_t min, std::int64_t max);

}  // namespace weir::api
