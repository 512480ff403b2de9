// PreTokenizer: cuts a stretch of text into the words that are merged on their own: a chain of stages, each applied
// inside the pieces of the one before.
//
// Immutable; any number of threads. Cost: linear per stage (patterns without a scanner: see regex.h). The chain is as
// deep as it has stages (at most kMaxStages), never as long as the text.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "text/tokenizer/regex.h"
#include "text/tokenizer/scanners.h"

namespace weir::text {

// A borrowed callable void(std::string_view); valid during the call it is passed to.
class PieceSink {
 public:
  template <class F>
  explicit PieceSink(F& f)
      : object_(&f), call_([](void* o, std::string_view piece) { (*static_cast<F*>(o))(piece); }) {}
  void operator()(std::string_view piece) const { call_(object_, piece); }

 private:
  void* object_;
  void (*call_)(void*, std::string_view);
};

enum class SplitBehavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

// Whether the stretch begins the text that the caller passed to encode: Metaspace's prepend scheme "first" asks.
struct StretchPlace {
  bool begins_text = false;
};

class Stage {
 public:
  virtual ~Stage() = default;
  // Passes the pieces of `piece` (not empty) on, in order; no empty ones.
  virtual void split(std::string_view piece, StretchPlace place, PieceSink next) const = 0;
  // Whether StretchPlace matters to it.
  virtual bool asks_for_place() const { return false; }
  // Set if this stage is exactly one scanner, so that the chain can skip the virtual call.
  virtual Scanner scanner() const { return nullptr; }
};

using StagePtr = std::unique_ptr<Stage>;

StagePtr scanner_stage(Scanner scanner);
StagePtr regex_stage(Regex regex, SplitBehavior behavior, bool invert);
StagePtr string_stage(std::string pattern, SplitBehavior behavior, bool invert);
// By a predicate over single characters: each is a match of its own.
enum class CharKind { kSpace, kNumber, kPunctuation };
StagePtr char_set_stage(CharKind kind, SplitBehavior behavior);
// \w+|[^\w\s]+ , white space removed.
StagePtr words_and_symbols_stage();
// A space before each piece that does not start with one.
StagePtr prefix_space_stage();
// Bytes become GPT-2's printable characters, for stages that come after it.
StagePtr byte_chars_stage();
// Where the script changes; a space and characters of no script belong to what is before them, and are dropped at the
// start.
StagePtr scripts_stage();
// Every `chars` characters.
StagePtr fixed_length_stage(std::size_t chars);
enum class Prepend { kAlways, kFirst, kNever };
StagePtr metaspace_stage(std::string replacement, Prepend prepend, bool split);

class PreTokenizer {
 public:
  static constexpr std::size_t kMaxStages = 16;

  PreTokenizer() = default;
  static Result<PreTokenizer> chain(std::vector<StagePtr> stages);

  bool asks_for_place() const { return asks_for_place_; }

  template <class F>
  void split(std::string_view text, StretchPlace place, F&& word) const {
    if (text.empty()) return;
    if (only_scanner_ != nullptr) {
      for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = only_scanner_(text, at);
        word(text.substr(at, end - at));
        at = end;
      }
      return;
    }
    run(0, text, place, PieceSink(word));
  }

 private:
  void run(std::size_t stage, std::string_view piece, StretchPlace place, PieceSink sink) const;

  std::vector<StagePtr> stages_;
  Scanner only_scanner_ = nullptr;
  bool asks_for_place_ = false;
};

}  // namespace weir::text
