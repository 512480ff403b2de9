// Normalizer: what a tokenizer does to a stretch of text before it is split: a list of steps in order.
//
// Immutable; any number of threads. Cost: linear per step (regular expressions: see regex.h). A step may lengthen the
// text by a constant factor; steps that would pass kMaxGrowth are skipped, so a hostile file cannot turn a prompt into
// gigabytes.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "text/tokenizer/charsmap.h"
#include "text/tokenizer/normal_form.h"
#include "text/tokenizer/regex.h"

namespace weir::text {

struct PrependStep {
  std::string text;
};
struct ReplaceStep {
  std::string pattern, content;
};
struct RegexReplaceStep {
  Regex regex;
  std::string content;
};
struct FormStep {
  NormalForm form;
};
struct StripStep {
  bool left, right;
};
struct LowercaseStep {};
struct StripAccentsStep {};
// BertNormalizer: control characters out, white space to spaces, ideographs set apart, accents off, lower case.
struct BertStep {
  bool clean = true, set_ideographs_apart = true, strip_accents = true, lowercase = true;
};
// What SentencePiece's "nmt" rules do to control and space characters.
struct NmtStep {};
// Bytes become GPT-2's printable characters.
struct ByteCharsStep {};
struct CharsmapStep {
  Charsmap map;
  CharsmapUnits units;
};
// SentencePiece's remove_extra_whitespaces: runs of spaces become one, none at either end.
struct SqueezeSpacesStep {};

using NormalizerStep =
    std::variant<PrependStep, ReplaceStep, RegexReplaceStep, FormStep, StripStep, LowercaseStep, StripAccentsStep,
                 SqueezeSpacesStep, BertStep, NmtStep, ByteCharsStep, CharsmapStep>;

class Normalizer {
 public:
  static constexpr std::size_t kMaxSteps = 32;
  static constexpr std::size_t kMaxGrowth = 64;  // times the bytes of the input, plus a few KB

  Normalizer() = default;
  static Result<Normalizer> sequence(std::vector<NormalizerStep> steps);

  // The normalised text: `text` itself where nothing changes, else a view of `buffer`.
  std::string_view apply(std::string_view text, std::string& buffer) const;
  bool empty() const { return steps_.empty(); }

 private:
  std::vector<NormalizerStep> steps_;
};

}  // namespace weir::text
