#include "text/tokenizer/pre_tokenizer.h"

#include <functional>

#include "text/tokenizer/byte_chars.h"
#include "text/tokenizer/library_tables.h"
#include "text/tokenizer/script_tables.h"
#include "text/tokenizer/unicode.h"

namespace weir::text {
namespace {

struct MarkedSpan {
  Span span;
  bool match;
};

// Cuts `text` at the spans, which cover it, as the behaviour says.
void cut(std::string_view text, const std::vector<MarkedSpan>& spans, SplitBehavior behavior, PieceSink next) {
  const auto emit = [&](std::size_t begin, std::size_t end) {
    if (end > begin) next(text.substr(begin, end - begin));
  };
  switch (behavior) {
    case SplitBehavior::kRemoved:
      for (const auto& [span, match] : spans) {
        if (!match) emit(span.begin, span.end);
      }
      return;
    case SplitBehavior::kIsolated:
      for (const auto& [span, match] : spans) emit(span.begin, span.end);
      return;
    case SplitBehavior::kContiguous:
      for (std::size_t i = 0; i < spans.size();) {
        std::size_t last = i;
        while (last + 1 < spans.size() && spans[last + 1].match == spans[i].match) ++last;
        emit(spans[i].span.begin, spans[last].span.end);
        i = last + 1;
      }
      return;
    case SplitBehavior::kMergedWithPrevious:
      for (std::size_t i = 0; i < spans.size(); ++i) {
        const bool joins = !spans[i].match && i + 1 < spans.size() && spans[i + 1].match;
        emit(spans[i].span.begin, spans[i + joins].span.end);
        i += joins;
      }
      return;
    case SplitBehavior::kMergedWithNext:
      for (std::size_t i = 0; i < spans.size(); ++i) {
        const bool joins = spans[i].match && i + 1 < spans.size() && !spans[i + 1].match;
        emit(spans[i].span.begin, spans[i + joins].span.end);
        i += joins;
      }
      return;
  }
}

// Matches and the text between them -> spans that cover the text.
void cut_at(std::string_view text, const std::vector<Span>& matches, SplitBehavior behavior, bool invert,
            PieceSink next) {
  std::vector<MarkedSpan> spans;
  spans.reserve(2 * matches.size() + 1);
  std::size_t at = 0;
  for (const Span& match : matches) {
    if (match.begin > at) spans.push_back({{at, match.begin}, invert});
    spans.push_back({match, !invert});
    at = match.end;
  }
  if (at < text.size()) spans.push_back({{at, text.size()}, invert});
  cut(text, spans, behavior, next);
}

class ScannerStage : public Stage {
 public:
  explicit ScannerStage(Scanner scanner) : scanner_(scanner) {}
  void split(std::string_view piece, StretchPlace, PieceSink next) const override {
    for (std::size_t at = 0; at < piece.size();) {
      const std::size_t end = scanner_(piece, at);
      next(piece.substr(at, end - at));
      at = end;
    }
  }
  Scanner scanner() const override { return scanner_; }

 private:
  Scanner scanner_;
};

class RegexStage : public Stage {
 public:
  RegexStage(Regex regex, SplitBehavior behavior, bool invert)
      : regex_(std::move(regex)), behavior_(behavior), invert_(invert) {}
  void split(std::string_view piece, StretchPlace, PieceSink next) const override {
    std::vector<Span> matches;
    regex_.find_all(piece, matches);
    cut_at(piece, matches, behavior_, invert_, next);
  }

 private:
  Regex regex_;
  SplitBehavior behavior_;
  bool invert_;
};

class StringStage : public Stage {
 public:
  StringStage(std::string pattern, SplitBehavior behavior, bool invert)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}
  void split(std::string_view piece, StretchPlace, PieceSink next) const override {
    std::vector<Span> matches;
    for (std::size_t at = 0; (at = piece.find(pattern_, at)) != std::string_view::npos; at += pattern_.size()) {
      matches.push_back({at, at + pattern_.size()});
    }
    cut_at(piece, matches, behavior_, invert_, next);
  }

 private:
  std::string pattern_;  // not empty
  SplitBehavior behavior_;
  bool invert_;
};

class CharSetStage : public Stage {
 public:
  CharSetStage(CharKind kind, SplitBehavior behavior) : kind_(kind), behavior_(behavior) {}
  void split(std::string_view piece, StretchPlace, PieceSink next) const override {
    std::vector<Span> matches;
    for (std::size_t at = 0; at < piece.size();) {
      const Char c = char_at(piece, at);
      if (contains(c.code)) matches.push_back({at, at + c.size});
      at += c.size;
    }
    cut_at(piece, matches, behavior_, false, next);
  }

 private:
  bool contains(char32_t code) const {
    using namespace library_tables;
    switch (kind_) {
      case CharKind::kSpace:
        return (class_of(code) & char_class::kSpace) != 0;
      case CharKind::kNumber:
        return unicode_tables::find_range(kNumbers, kNumNumbers, code) != nullptr;
      case CharKind::kPunctuation:  // ASCII symbols ($ + < = > ^ ` | ~) too
        return unicode_tables::find_range(kPunctuation, kNumPunctuation, code) != nullptr;
    }
    return false;
  }

  CharKind kind_;
  SplitBehavior behavior_;
};

class WordsAndSymbolsStage : public Stage {
 public:
  void split(std::string_view piece, StretchPlace, PieceSink next) const override {
    const auto kind = [](char32_t code) {
      const CharClass c = class_of(code);
      return (c & char_class::kSpace) != 0 ? 0 : is_word_char(code) ? 1 : 2;
    };
    for (std::size_t at = 0; at < piece.size();) {
      const std::size_t begin = at;
      Char c = char_at(piece, at);
      const int wanted = kind(c.code);
      do {
        at += c.size;
        if (at < piece.size()) c = char_at(piece, at);
      } while (at < piece.size() && kind(c.code) == wanted);
      if (wanted != 0) next(piece.substr(begin, at - begin));
    }
  }
};

class ScriptsStage : public Stage {
 public:
  void split(std::string_view piece, StretchPlace, PieceSink next) const override {
    int last = kNone;
    std::size_t begin = 0;
    for (std::size_t at = 0; at < piece.size();) {
      const Char c = char_at(piece, at);
      const int script = script_here(c.code);
      if (script != kNone && last != kNone && script != last) {
        next(piece.substr(begin, at - begin));
        begin = at;
      }
      if (script != kNone && last == kNone) begin = at;  // what stands before the first script is dropped
      if (script != kNone) last = script;
      at += c.size;
    }
    if (last != kNone) next(piece.substr(begin));
  }

 private:
  static constexpr int kNone = -1;

  // Japanese mixes its scripts within a word: they count as one.
  static int script_here(char32_t code) {
    using namespace unicode_tables;
    static const int kHan = script_of_name("han"), kHiragana = script_of_name("hiragana"),
                     kKatakana = script_of_name("katakana");
    constexpr char32_t kLongVowelMark = 0x30FC;
    if (code == kLongVowelMark) return kHan;
    if (code == ' ' || code >= kInvalidChar || has_unsplit_script(code)) return kNone;
    const int script = script_of(code);
    return script == kHiragana || script == kKatakana ? kHan : script;
  }
};

class FixedLengthStage : public Stage {
 public:
  explicit FixedLengthStage(std::size_t chars) : chars_(chars) {}
  void split(std::string_view piece, StretchPlace, PieceSink next) const override {
    for (std::size_t at = 0; at < piece.size();) {
      const std::size_t begin = at;
      for (std::size_t i = 0; i < chars_ && at < piece.size(); ++i) at += char_at(piece, at).size;
      next(piece.substr(begin, at - begin));
    }
  }

 private:
  std::size_t chars_;  // > 0
};

class PrefixSpaceStage : public Stage {
 public:
  void split(std::string_view piece, StretchPlace, PieceSink next) const override {
    if (piece.front() == ' ') return next(piece);
    std::string with_space = " ";
    with_space += piece;
    next(with_space);
  }
};

class ByteCharsStage : public Stage {
 public:
  void split(std::string_view piece, StretchPlace, PieceSink next) const override { next(bytes_to_chars(piece)); }
};

class MetaspaceStage : public Stage {
 public:
  MetaspaceStage(std::string replacement, Prepend prepend, bool split)
      : replacement_(std::move(replacement)), prepend_(prepend), split_(split) {}
  bool asks_for_place() const override { return prepend_ == Prepend::kFirst; }
  void split(std::string_view piece, StretchPlace place, PieceSink next) const override {
    std::string text;
    text.reserve(piece.size() + piece.size() / 4 + replacement_.size());
    const bool wanted = prepend_ == Prepend::kAlways || (prepend_ == Prepend::kFirst && place.begins_text);
    if (wanted && piece.front() != ' ' && !piece.starts_with(replacement_)) text += replacement_;
    for (const char c : piece) {
      if (c == ' ') {
        text += replacement_;
      } else {
        text.push_back(c);
      }
    }
    if (!split_) return next(text);
    std::vector<Span> matches;
    for (std::size_t at = 0; (at = text.find(replacement_, at)) != std::string::npos; at += replacement_.size()) {
      matches.push_back({at, at + replacement_.size()});
    }
    cut_at(text, matches, SplitBehavior::kMergedWithNext, false, next);
  }

 private:
  std::string replacement_;  // one character
  Prepend prepend_;
  bool split_;
};

}  // namespace

StagePtr scanner_stage(Scanner scanner) {
  return std::make_unique<ScannerStage>(scanner);
}
StagePtr regex_stage(Regex regex, SplitBehavior behavior, bool invert) {
  return std::make_unique<RegexStage>(std::move(regex), behavior, invert);
}
StagePtr string_stage(std::string pattern, SplitBehavior behavior, bool invert) {
  return std::make_unique<StringStage>(std::move(pattern), behavior, invert);
}
StagePtr char_set_stage(CharKind kind, SplitBehavior behavior) {
  return std::make_unique<CharSetStage>(kind, behavior);
}
StagePtr words_and_symbols_stage() {
  return std::make_unique<WordsAndSymbolsStage>();
}
StagePtr scripts_stage() {
  return std::make_unique<ScriptsStage>();
}
StagePtr fixed_length_stage(std::size_t chars) {
  return std::make_unique<FixedLengthStage>(chars);
}
StagePtr prefix_space_stage() {
  return std::make_unique<PrefixSpaceStage>();
}
StagePtr byte_chars_stage() {
  return std::make_unique<ByteCharsStage>();
}
StagePtr metaspace_stage(std::string replacement, Prepend prepend, bool split) {
  return std::make_unique<MetaspaceStage>(std::move(replacement), prepend, split);
}

Result<PreTokenizer> PreTokenizer::chain(std::vector<StagePtr> stages) {
  if (stages.size() > kMaxStages) {
    return fail(ErrorCode::kUnsupported, "the tokenizer chains {} pre-tokenizers; weir allows {}", stages.size(),
                kMaxStages);
  }
  PreTokenizer chain;
  if (stages.size() == 1) chain.only_scanner_ = stages[0]->scanner();
  for (const StagePtr& stage : stages) chain.asks_for_place_ |= stage->asks_for_place();
  chain.stages_ = std::move(stages);
  return chain;
}

// Of the parts of a piece that begins the text, the one at its beginning does; a stage that makes its parts anew makes
// the first one there.
void PreTokenizer::run(std::size_t stage, std::string_view piece, StretchPlace place, PieceSink sink) const {
  if (stage == stages_.size()) return sink(piece);
  bool first = true;
  auto next = [&](std::string_view part) {
    const std::less_equal<const char*> not_behind;
    const bool inside = not_behind(piece.data(), part.data()) && not_behind(part.data(), piece.data() + piece.size());
    const bool at_begin = inside ? part.data() == piece.data() : first;
    first = false;
    run(stage + 1, part, {place.begins_text && at_begin}, sink);
  };
  stages_[stage]->split(piece, place, PieceSink(next));
}

}  // namespace weir::text
