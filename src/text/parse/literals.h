// Values as models write them in calls -> JSON text. Pure functions; any bytes may come in.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace weir::text::parse {

using Json = nlohmann::ordered_json;  // objects keep the order of their keys

// What a JSON Schema lets a parameter be. `known` is false where it does not say.
struct ValueTypes {
  bool known = false, string = false, integer = false, number = false, boolean = false, null = false, object = false,
       array = false;

  bool only_string() const { return known && string && !(integer || number || boolean || null || object || array); }
};

// The functions a request offers.
class ToolSchemas {
 public:
  // `tools`: OpenAI's list of {"type": "function", "function": {...}}; null: none.
  explicit ToolSchemas(Json tools = nullptr) : tools_(std::move(tools)) {}

  bool has(std::string_view function) const { return find(function) != nullptr; }
  ValueTypes types_of(std::string_view function, std::string_view parameter) const;
  // The JSON Schema of a function's arguments; nullptr: none. It lives as long as this.
  const Json* parameters_of(std::string_view function) const;

 private:
  const Json* find(std::string_view function) const;

  Json tools_;
};

// Of a schema, which may be nullptr or no schema at all: its types, the schema of a member, that of a list's elements.
ValueTypes types_of_schema(const Json* schema);
const Json* member_of_schema(const Json* schema, std::string_view name);
const Json* element_of_schema(const Json* schema);

// One byte of a string inside JSON quotes.
void append_json_escaped(std::string& out, char c);
// "text", quoted.
std::string json_string(std::string_view text);
// A JSON string with its quotes -> its text.
std::optional<std::string> decode_json_string(std::string_view json);
// Whether it is one JSON value, and nothing else.
bool is_json(std::string_view text);
// A Python literal (of strings, numbers, lists, tuples, dicts, True, False, None; JSON's own words and quotes too) as
// JSON, spaced like Python's json.dumps. nullopt: it is none.
std::optional<std::string> python_to_json(std::string_view text);
// A parameter's value that stands without quotes (`Paris`, `3`, `{"a": 1}`): by its types; what fits none is a string.
std::string bare_value_to_json(std::string_view text, const ValueTypes& types);

}  // namespace weir::text::parse
