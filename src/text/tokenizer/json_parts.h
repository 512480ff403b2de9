// The components of a tokenizer.json -> parts of a Pipeline. Each function takes the component's JSON (null: none) and
// fails with kUnsupported for what weir lacks and kCorruptFile for what contradicts the format.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/tokenizer/normalizer.h"
#include "text/tokenizer/pre_tokenizer.h"

namespace weir::text {

Result<Normalizer> normalizer_from_json(const nlohmann::json& node);

struct PreTokenizerParts {
  std::vector<StagePtr> stages;
  bool byte_level = false;  // words are bytes; else characters
  bool byte_chars = false;  // the last stage gives bytes as GPT-2's characters
};
Result<PreTokenizerParts> pre_tokenizer_from_json(const nlohmann::json& node);

// Ids put before and after a single text.
struct Framing {
  std::vector<std::int64_t> before, after;
  bool stated = false;  // a component that frames is there, even if it adds nothing
};
Result<Framing> framing_from_json(const nlohmann::json& node);

// Access with checks.
std::string json_type(const nlohmann::json& node);                               // its "type", or ""
const nlohmann::json& json_member(const nlohmann::json& node, const char* key);  // a null if absent
bool json_flag(const nlohmann::json& node, const char* key, bool absent);
Result<std::string> json_string(const nlohmann::json& node, const char* key);
// The members of a Sequence: "normalizers", "pretokenizers", "processors", "decoders".
Result<const nlohmann::json*> json_members(const nlohmann::json& node, const char* key);
// {"String": s} or {"Regex": s}.
struct JsonPattern {
  std::string text;
  bool regex = false;
};
Result<JsonPattern> json_pattern(const nlohmann::json& node);

// Sequences may hold sequences; nothing published nests more than two.
inline constexpr int kMaxJsonNesting = 8;
tl::unexpected<Error> json_unsupported(const char* what, const std::string& type);
tl::unexpected<Error> json_too_deep(const char* what);

}  // namespace weir::text
