// response_format and JSON Schemas. Output is never left unconstrained where a constraint was asked for.
#include <array>
#include <string>

#include "api/request_fields.h"

namespace weir::api {
namespace {

tl::unexpected<Error> bad_schema(const std::string& where, std::string_view what, const Json& found) {
  return fail_at("response_format", ErrorCode::kInvalidArgument, "{} must be {}, not {}", where, what,
                 describe_json(found));
}

bool is_type_name(const Json& value) {
  constexpr std::array<std::string_view, 7> kTypes = {"object",  "array",   "string", "number",
                                                      "integer", "boolean", "null"};
  return value.is_string() &&
         std::find(kTypes.begin(), kTypes.end(), value.get_ref<const std::string&>()) != kTypes.end();
}

Status check_type(const Json& type, const std::string& where) {
  bool ok = is_type_name(type);
  if (type.is_array() && !type.empty()) ok = std::all_of(type.begin(), type.end(), is_type_name);
  if (ok) return {};
  return fail_at("response_format", ErrorCode::kInvalidArgument,
                 "{} must be one of JSON Schema's types or a list of them, not {}", where,
                 type.is_string() ? "'" + type.get<std::string>().substr(0, 40) + "'" : describe_json(type));
}

Status check_schema_list(const Json& list, const std::string& where) {
  if (!list.is_array() || list.empty()) return bad_schema(where, "a list of schemas", list);
  for (std::size_t i = 0; i < list.size(); ++i) {
    WEIR_RETURN_IF_ERROR(check_json_schema(list[i], fmt::format("{}[{}]", where, i)));
  }
  return {};
}

Status check_schema_map(const Json& map, const std::string& where) {
  if (!map.is_object()) return bad_schema(where, "an object of schemas", map);
  for (const auto& [name, schema] : map.items())
    WEIR_RETURN_IF_ERROR(check_json_schema(schema, where + "." + name.substr(0, 80)));
  return {};
}

Status check_json_schema_format(const Fields& format) {
  const Json* json_schema = format.find("json_schema");
  if (!json_schema || !json_schema->is_object()) {
    return fail_at("response_format", ErrorCode::kInvalidArgument,
                   "response_format of type json_schema needs an object json_schema with a schema in it");
  }
  const Fields fields(*json_schema, "response_format.json_schema.");
  std::string name;
  bool strict = false;
  WEIR_RETURN_IF_ERROR(fields.string("name", name));
  WEIR_RETURN_IF_ERROR(fields.boolean("strict", strict));
  const Json* schema = fields.find("schema");
  if (!schema)
    return fail_at("response_format", ErrorCode::kInvalidArgument, "response_format.json_schema.schema is missing");
  return check_json_schema(*schema, "response_format.json_schema.schema");
}

}  // namespace

// Depth is bounded by parse_json().
Status check_json_schema(const Json& schema, const std::string& where) {
  if (schema.is_boolean()) return {};
  if (!schema.is_object()) return bad_schema(where, "a JSON Schema (an object, true or false)", schema);
  for (const auto& [key, value] : schema.items()) {
    const std::string at = where + "." + key.substr(0, 80);
    if (key == "type") {
      WEIR_RETURN_IF_ERROR(check_type(value, at));
    } else if (key == "properties" || key == "patternProperties" || key == "$defs" || key == "definitions" ||
               key == "dependentSchemas") {
      WEIR_RETURN_IF_ERROR(check_schema_map(value, at));
    } else if (key == "anyOf" || key == "oneOf" || key == "allOf" || key == "prefixItems") {
      WEIR_RETURN_IF_ERROR(check_schema_list(value, at));
    } else if (key == "items" && value.is_array()) {
      WEIR_RETURN_IF_ERROR(check_schema_list(value, at));
    } else if (key == "items" || key == "additionalProperties" || key == "additionalItems" || key == "not" ||
               key == "contains" || key == "propertyNames" || key == "if" || key == "then" || key == "else") {
      WEIR_RETURN_IF_ERROR(check_json_schema(value, at));
    } else if (key == "required") {
      if (!value.is_array() || !std::all_of(value.begin(), value.end(), [](const Json& v) { return v.is_string(); })) {
        return bad_schema(at, "a list of strings", value);
      }
    } else if (key == "enum") {
      if (!value.is_array() || value.empty()) return bad_schema(at, "a list of values", value);
    } else if (key == "pattern" || key == "$ref" || key == "format") {
      if (!value.is_string()) return bad_schema(at, "a string", value);
    } else if (key == "minLength" || key == "maxLength" || key == "minItems" || key == "maxItems" ||
               key == "minProperties" || key == "maxProperties") {
      if (!value.is_number_unsigned()) return bad_schema(at, "a whole number of at least 0", value);
    } else if (key == "minimum" || key == "maximum" || key == "exclusiveMinimum" || key == "exclusiveMaximum" ||
               key == "multipleOf") {
      if (!value.is_number()) return bad_schema(at, "a number", value);
    }
  }
  return {};
}

Status check_output_format(const Fields& fields) {
  if (const Json* format = fields.find("response_format")) {
    const Json* type = format->is_object() ? Fields(*format).find("type") : nullptr;
    if (!type || !type->is_string()) {
      return fail_at("response_format", ErrorCode::kInvalidArgument,
                     "response_format must be an object with a string type, not {}", describe_json(*format));
    }
    const auto& name = type->get_ref<const std::string&>();
    if (name == "json_schema") WEIR_RETURN_IF_ERROR(check_json_schema_format(Fields(*format)));
    if (name != "text" && name != "json_object" && name != "json_schema" && name != "structural_tag") {
      return fail_at("response_format", ErrorCode::kInvalidArgument,
                     "response_format has the unknown type '{}'; known are text, json_object and json_schema",
                     name.substr(0, 40));
    }
    if (name != "text") {
      return fail_at("response_format", ErrorCode::kUnsupported,
                     "response_format of type {} is not supported yet; only text is", name);
    }
  }
  constexpr std::array kConstraints = {"guided_json",        "guided_regex", "guided_choice", "guided_grammar",
                                       "structured_outputs", "grammar",      "json_schema"};
  for (const char* name : kConstraints) {
    if (fields.find(name)) return fail_at(name, ErrorCode::kUnsupported, "{} is not supported yet; leave it out", name);
  }
  return {};
}

}  // namespace weir::api
