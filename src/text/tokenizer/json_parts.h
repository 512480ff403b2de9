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

// What a decoder does to each token on its own, and to the start of the text.
class TokenDecoder {
 public:
  static Result<TokenDecoder> from_json(const nlohmann::json& node);
  std::string bytes_of(std::string_view token) const;
  bool strips_first_space() const { return strips_first_space_; }
  bool byte_level() const { return byte_level_; }

 private:
  struct Step {
    enum { kReplace, kByteFallback, kByteLevel, kStrip } kind;
    std::string from = {},
                to = {};  // kReplace; kStrip: `from`, at most `count` times at the start, `count_end` at the end
    std::size_t count = 0, count_end = 0;
  };
  Status add(const nlohmann::json& node, int depth, bool& fused);
  Status add_strip(const nlohmann::json& node, bool fused);

  std::vector<Step> steps_;
  bool strips_first_space_ = false;
  bool byte_level_ = false;
};

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

}  // namespace weir::text
