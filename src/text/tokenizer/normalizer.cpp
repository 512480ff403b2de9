#include "text/tokenizer/normalizer.h"

#include <utf8proc.h>

#include <optional>

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

Change run(const LowercaseStep&, std::string_view text) {
  return map_chars(text, [](std::string& out, char32_t code) {
    constexpr char32_t kCapitalDottedI = 0x130;  // the one character whose full lower case has two code points
    if (code == kCapitalDottedI) {
      out += "i\u0307";
    } else {
      append_utf8(out, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code))));
    }
  });
}

Change run(const StripAccentsStep&, std::string_view text) {
  return map_chars(text, [](std::string& out, char32_t code) {
    if ((class_of(code) & char_class::kMark) == 0) append_utf8(out, code);
  });
}

Change run(const SqueezeSpacesStep&, std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    if (c == ' ' && (out.empty() || out.back() == ' ')) continue;
    out.push_back(c);
  }
  if (!out.empty() && out.back() == ' ') out.pop_back();
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
