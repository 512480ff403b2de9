// Checked access to JSON files: bounded size and depth, typed fields, errors that name file, field and value.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "load/limits.h"

namespace weir::load {

// The whole file. kNotFound when it cannot be read, kTooLarge above `max_bytes`.
Result<std::string> read_text_file(const std::string& path, std::size_t max_bytes);

// kCorruptFile when it is no JSON or nested deeper than any configuration is.
Result<nlohmann::json> parse_json(std::string_view text, const std::string& file);

// The members of one JSON object. Getters give nullopt for a member that is absent or null, and an error for one of the
// wrong kind.
class JsonFields {
 public:
  // `object` must outlive this. `prefix` ("rope_scaling.") is put before names in errors.
  JsonFields(const nlohmann::json& object, std::string file, std::string prefix = {})
      : object_(&object), file_(std::move(file)), prefix_(std::move(prefix)) {}

  const std::string& file() const { return file_; }
  bool has(const char* key) const { return member(key) != nullptr; }
  bool names(const char* key) const;                    // the member is there, perhaps as null
  const nlohmann::json* member(const char* key) const;  // nullptr when absent or null
  Result<std::optional<JsonFields>> object(const char* key) const;

  Result<std::optional<std::int64_t>> integer(const char* key, Range range) const;
  Result<std::int64_t> required(const char* key, Range range) const;
  Result<std::optional<double>> number(const char* key) const;  // finite
  Result<std::optional<bool>> boolean(const char* key) const;
  Result<std::optional<std::string>> string(const char* key) const;

 private:
  tl::unexpected<Error> wrong(const char* key, const nlohmann::json& value, std::string_view expected) const;

  const nlohmann::json* object_;
  std::string file_, prefix_;
};

}  // namespace weir::load
