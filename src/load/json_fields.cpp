#include "load/json_fields.h"

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

namespace weir::load {

using nlohmann::json;

namespace {

constexpr int kMaxDepth = 64;          // configurations nest four deep
constexpr std::size_t kMaxQuote = 80;  // of a value in an error

struct TooDeep {};

std::string quote(const json& value) {
  std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  if (text.size() > kMaxQuote) text = text.substr(0, kMaxQuote) + "...";
  return text;
}

}  // namespace

Result<std::string> read_text_file(const std::string& path, std::size_t max_bytes) {
  std::error_code error;
  if (const auto status = std::filesystem::status(path, error); !std::filesystem::is_regular_file(status)) {
    return fail(ErrorCode::kNotFound, "{}: {}", path,
                std::filesystem::exists(status) ? "not a regular file" : "no such file");
  }
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), std::fclose);
  if (!file) return fail(ErrorCode::kNotFound, "{}: cannot be opened: {}", path, std::strerror(errno));
  std::string text;
  char buffer[1 << 16];
  while (const std::size_t n = std::fread(buffer, 1, sizeof(buffer), file.get())) {
    if (n > max_bytes - text.size()) {
      return fail(ErrorCode::kTooLarge, "{}: larger than the {} bytes that such a file may have", path, max_bytes);
    }
    text.append(buffer, n);
  }
  if (std::ferror(file.get()) != 0)
    return fail(ErrorCode::kNotFound, "{}: cannot be read: {}", path, std::strerror(errno));
  return text;
}

Result<json> parse_json(std::string_view text, const std::string& file) {
  try {
    const auto limit_depth = [](int depth, json::parse_event_t, json&) {
      if (depth > kMaxDepth) throw TooDeep();
      return true;
    };
    return json::parse(text, limit_depth);
  } catch (const TooDeep&) {
    return fail(ErrorCode::kCorruptFile, "{}: JSON nested more than {} deep", file, kMaxDepth);
  } catch (const json::exception& e) {
    return fail(ErrorCode::kCorruptFile, "{}: not valid JSON: {}", file, e.what());
  }
}

tl::unexpected<Error> JsonFields::wrong(const char* key, const json& value, std::string_view expected) const {
  return fail_at(prefix_ + key, ErrorCode::kCorruptFile, "{}: \"{}{}\" is {}; {} expected", file_, prefix_, key,
                 quote(value), expected);
}

bool JsonFields::names(const char* key) const {
  return object_->is_object() && object_->contains(key);
}

const json* JsonFields::member(const char* key) const {
  if (!object_->is_object()) return nullptr;
  const auto found = object_->find(key);
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

Result<std::optional<JsonFields>> JsonFields::object(const char* key) const {
  const json* value = member(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_object()) return wrong(key, *value, "an object");
  return JsonFields(*value, file_, prefix_ + key + ".");
}

Result<std::optional<std::int64_t>> JsonFields::integer(const char* key, Range range) const {
  const json* value = member(key);
  if (value == nullptr) return std::nullopt;
  const auto expected = [&] { return fmt::format("an integer from {} to {}", range.low, range.high); };
  // Through double: exact for every value within a Range, and it accepts the 4096.0 that some tools write.
  if (!value->is_number()) return wrong(key, *value, expected());
  const double number = value->get<double>();
  if (!(number >= static_cast<double>(range.low) && number <= static_cast<double>(range.high)) ||
      number != std::floor(number)) {
    return wrong(key, *value, expected());
  }
  return static_cast<std::int64_t>(number);
}

Result<std::int64_t> JsonFields::required(const char* key, Range range) const {
  WEIR_TRY(const auto value, integer(key, range));
  if (!value) return fail_at(prefix_ + key, ErrorCode::kCorruptFile, "{}: \"{}{}\" is missing", file_, prefix_, key);
  return *value;
}

Result<std::optional<double>> JsonFields::number(const char* key) const {
  const json* value = member(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number() || !std::isfinite(value->get<double>())) return wrong(key, *value, "a number");
  return value->get<double>();
}

Result<std::optional<bool>> JsonFields::boolean(const char* key) const {
  const json* value = member(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) return wrong(key, *value, "true or false");
  return value->get<bool>();
}

Result<std::optional<std::string>> JsonFields::string(const char* key) const {
  const json* value = member(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) return wrong(key, *value, "a string");
  return value->get<std::string>();
}

}  // namespace weir::load
