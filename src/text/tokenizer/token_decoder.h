// TokenDecoder: the decoder of a tokenizer.json, as what it does to each token on its own.
//
// A decoder maps the list of tokens and joins it. What its steps do to one token depends at most on whether the token
// is the first (Metaspace, WordPiece) or the last one (BPEDecoder), so replies can be decoded token by token. Steps
// that look across tokens (a regular expression behind Fuse, CTC) are refused.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/tokenizer/regex.h"

namespace weir::text {

class TokenDecoder {
 public:
  // null: tokens are joined with spaces.
  static Result<TokenDecoder> from_json(const nlohmann::json& node);

  struct Decoded {
    std::string bytes;
    std::size_t tail = 0;  // bytes at the end that stand only in front of another token
  };
  Decoded decode(std::string_view token, bool first) const;

  bool byte_level() const { return byte_level_; }
  // Whether decode() depends on `first`.
  bool minds_first() const;

 private:
  enum class Kind { kReplace, kRegexReplace, kByteFallback, kByteLevel, kStrip, kSpaceBefore, kWordPiece, kWordSuffix };
  struct Step {
    Kind kind;
    std::string from = {}, to = {};  // kStrip: `from`, at most `count` times at the start, `count_end` at the end
    std::size_t count = 0, count_end = 0;
    bool cleanup = false;             // kWordPiece
    bool first_only = false;          // kStrip
    std::optional<Regex> regex = {};  // kRegexReplace
  };
  Status add(const nlohmann::json& node, int depth, bool& fused);
  Status add_replace(const nlohmann::json& node, bool fused);
  Status add_metaspace(const nlohmann::json& node);
  Status add_strip(const nlohmann::json& node, bool fused);
  Status push(Step step);
  static std::string apply(const Step& step, std::string text, bool first);

  std::vector<Step> steps_;
  bool byte_level_ = false;
};

}  // namespace weir::text
