#include "text/tokenizer/normalizer.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "text/tokenizer/byte_chars.h"
#include "text/tokenizer/library_tables.h"
#include "text/tokenizer/unicode.h"

namespace weir::text {
namespace {

// A step's result; nullopt: unchanged.
using Change = std::optional<std::string>;

std::size_t growth_limit(std::string_view text) {
  return Normalizer::kMaxGrowth * text.size() + 4096;
}

Change run(const PrependStep& step, std::string_view text) {
  if (text.empty()) return std::nullopt;
  std::string out = step.text;
  out += text;
  return out;
}

Change replace_spans(std::string_view text, const std::vector<Span>& spans, const std::string& content) {
  if (spans.empty() || spans.size() * content.size() > growth_limit(text)) return std::nullopt;
  std::string out;
  out.reserve(text.size() + spans.size() * content.size());
  std::size_t at = 0;
  for (const Span& span : spans) {
    out += text.substr(at, span.begin - at);
    out += content;
    at = span.end;
  }
  out += text.substr(at);
  return out;
}

Change run(const ReplaceStep& step, std::string_view text) {
  std::vector<Span> spans;
  for (std::size_t at = 0; (at = text.find(step.pattern, at)) != std::string_view::npos; at += step.pattern.size()) {
    spans.push_back({at, at + step.pattern.size()});
  }
  return replace_spans(text, spans, step.content);
}

Change run(const RegexReplaceStep& step, std::string_view text) {
  std::vector<Span> spans;
  step.regex.find_all(text, spans);
  return replace_spans(text, spans, step.content);
}

Change run(const FormStep& step, std::string_view text) {
  if (step.form == NormalForm::kNfc && surely_nfc(text)) return std::nullopt;
  return normalize(text, step.form);
}

Change run(const StripStep& step, std::string_view text) {
  const auto is_space = [&](std::size_t at) { return (class_of(char_at(text, at).code) & char_class::kSpace) != 0; };
  std::size_t begin = 0, end = text.size();
  while (step.left && begin < end && is_space(begin)) begin += char_at(text, begin).size;
  while (step.right && begin < end && is_space(previous_char(text, end))) end = previous_char(text, end);
  if (begin == 0 && end == text.size()) return std::nullopt;
  return std::string(text.substr(begin, end - begin));
}

template <class F>
std::string map_chars(std::string_view text, F map) {
  std::string out;
  out.reserve(text.size() + text.size() / 8);
  for (std::size_t at = 0; at < text.size();) {
    const Char c = char_at(text, at);
    if (c.code == kInvalidChar) {
      out.push_back(text[at]);
    } else {
      map(out, c.code);
    }
    at += c.size;
  }
  return out;
}

bool among(const unicode_tables::CodeRange* ranges, std::size_t count, char32_t code) {
  return code >= 0x80 && unicode_tables::find_range(ranges, count, code) != nullptr;
}

char32_t lowercase(char32_t code) {
  using namespace library_tables;
  if (code < 0x80) return code >= 'A' && code <= 'Z' ? code + ('a' - 'A') : code;
  const auto* end = kLowercase + kNumLowercase;
  const auto* found =
      std::lower_bound(kLowercase, end, code, [](const auto& pair, char32_t c) { return pair.from < c; });
  return found != end && found->from == code ? found->to : code;
}

Change run(const LowercaseStep&, std::string_view text) {
  return map_chars(text, [](std::string& out, char32_t code) {
    constexpr char32_t kCapitalDottedI = 0x130;  // the one character whose full lower case has two code points
    if (code == kCapitalDottedI) {
      out += "i\u0307";
    } else {
      append_utf8(out, lowercase(code));
    }
  });
}

Change run(const StripAccentsStep&, std::string_view text) {
  using namespace library_tables;
  return map_chars(text, [](std::string& out, char32_t code) {
    if (!among(kAccents, kNumAccents, code)) append_utf8(out, code);
  });
}

// The blocks of ideographs that BERT sets apart; the fourth extension begins where the reference implementation has it.
bool is_ideograph(char32_t code) {
  constexpr std::pair<char32_t, char32_t> kBlocks[] = {{0x4E00, 0x9FFF},   {0x3400, 0x4DBF},   {0x20000, 0x2A6DF},
                                                       {0x2A700, 0x2B73F}, {0x2B740, 0x2B81F}, {0x2B920, 0x2CEAF},
                                                       {0xF900, 0xFAFF},   {0x2F800, 0x2FA1F}};
  return std::any_of(std::begin(kBlocks), std::end(kBlocks),
                     [&](const auto& block) { return code >= block.first && code <= block.second; });
}

std::string bert_cleaned(std::string_view text) {
  using namespace library_tables;
  return map_chars(text, [](std::string& out, char32_t code) {
    if (unicode_tables::find_range(kBertControls, kNumBertControls, code) != nullptr) return;
    if ((class_of(code) & char_class::kSpace) != 0) {
      out.push_back(' ');
    } else {
      append_utf8(out, code);
    }
  });
}

Change run(const BertStep& step, std::string_view text) {
  std::string out(text);
  if (step.clean) out = bert_cleaned(out);
  if (step.set_ideographs_apart) {
    out = map_chars(out, [](std::string& to, char32_t code) {
      const bool apart = is_ideograph(code);
      if (apart) to.push_back(' ');
      append_utf8(to, code);
      if (apart) to.push_back(' ');
    });
  }
  if (step.strip_accents) {
    out = map_chars(normalize(out, NormalForm::kNfd), [](std::string& to, char32_t code) {
      if (!among(library_tables::kBertAccents, library_tables::kNumBertAccents, code)) append_utf8(to, code);
    });
  }
  if (step.lowercase) out = *run(LowercaseStep{}, out);
  return out;
}

Change run(const NmtStep&, std::string_view text) {
  return map_chars(text, [](std::string& out, char32_t code) {
    const bool dropped = (code >= 1 && code <= 8) || code == 0xB || (code >= 0xE && code <= 0x1F) || code == 0x7F ||
                         code == 0x8F || code == 0x9F;
    if (dropped) return;
    const bool space = code == 9 || code == 0xA || code == 0xC || code == 0xD || code == 0x1680 ||
                       (code >= 0x200B && code <= 0x200F) || code == 0x2028 || code == 0x2029 || code == 0x2581 ||
                       code == 0xFEFF || code == 0xFFFD;
    append_utf8(out, space ? U' ' : code);
  });
}

Change run(const ByteCharsStep&, std::string_view text) {
  return bytes_to_chars(text);
}

Change run(const CharsmapStep& step, std::string_view text) {
  return step.map.apply(text, step.units, growth_limit(text));
}

Change run(const SqueezeSpacesStep&, std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    if (c == ' ' && (out.empty() || out.back() == ' ')) continue;
    out.push_back(c);
  }
  // A U+2581 of the text itself counts as a space at the end, though nowhere else.
  constexpr std::string_view kMark = "\u2581";
  for (;;) {
    if (out.ends_with(' ')) {
      out.pop_back();
    } else if (out.ends_with(kMark)) {
      out.resize(out.size() - kMark.size());
    } else {
      break;
    }
  }
  return out;
}

}  // namespace

Result<Normalizer> Normalizer::sequence(std::vector<NormalizerStep> steps) {
  if (steps.size() > kMaxSteps) {
    return fail(ErrorCode::kUnsupported, "the tokenizer has {} normalizers in a row; weir allows {}", steps.size(),
                kMaxSteps);
  }
  Normalizer normalizer;
  normalizer.steps_ = std::move(steps);
  return normalizer;
}

std::string_view Normalizer::apply(std::string_view text, std::string& buffer) const {
  std::string_view current = text;
  for (const NormalizerStep& step : steps_) {
    Change changed = std::visit([&](const auto& s) { return run(s, current); }, step);
    if (!changed || changed->size() > growth_limit(text)) continue;
    buffer = *std::move(changed);
    current = buffer;
  }
  return current;
}

}  // namespace weir::text
