#include "text/tokenizer/token_decoder.h"

#include <algorithm>
#include <utility>

#include "text/tokenizer/byte_chars.h"
#include "text/tokenizer/byte_token.h"
#include "text/tokenizer/json_parts.h"

namespace weir::text {

using nlohmann::json;

namespace {

constexpr std::size_t kMaxSteps = 32;
// A hostile file's steps may not turn its tokens into gigabytes; where they would pass this they end.
constexpr std::size_t kMaxGrowth = 16, kFreeBytes = 256;
constexpr std::string_view kSpaceMark = "\u2581";

// What the tokenizers library calls cleaning up: the spaces that English text does not have.
std::string cleaned_up(std::string text) {
  constexpr std::pair<std::string_view, std::string_view> kRules[] = {
      {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
      {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : kRules) text = replace_all(text, from, to);
  return text;
}

std::string replaced(std::string_view text, const Regex& regex, std::string_view content) {
  std::vector<Span> spans;
  regex.find_all(text, spans);
  std::string out;
  std::size_t at = 0;
  for (const Span& span : spans) {
    out += text.substr(at, span.begin - at);
    out += content;
    at = span.end;
  }
  return out += text.substr(at);
}

}  // namespace

Result<TokenDecoder> TokenDecoder::from_json(const json& node) {
  TokenDecoder decoder;
  bool fused = false;
  if (node.is_null()) {
    decoder.steps_.push_back({.kind = Kind::kSpaceBefore});
  } else {
    WEIR_RETURN_IF_ERROR(decoder.add(node, 0, fused));
  }
  return decoder;
}

Status TokenDecoder::push(Step step) {
  if (steps_.size() >= kMaxSteps) return json_too_deep("decoders");
  steps_.push_back(std::move(step));
  return {};
}

// `fused`: the tokens have been joined, so what follows sees the whole text.
Status TokenDecoder::add(const json& node, int depth, bool& fused) {
  const std::string type = json_type(node);
  if (depth > kMaxJsonNesting) return json_too_deep("decoders");
  if (type == "Sequence") {
    WEIR_TRY(const json* list, json_members(node, "decoders"));
    for (const json& member : *list) WEIR_RETURN_IF_ERROR(add(member, depth + 1, fused));
    return {};
  }
  if (type == "Fuse") {
    fused = true;
    return {};
  }
  if (type == "ByteLevel") {
    byte_level_ = true;
    return push({.kind = Kind::kByteLevel});
  }
  if (type == "ByteFallback") return push({.kind = Kind::kByteFallback});
  if (type == "Replace") return add_replace(node, fused);
  if (type == "Metaspace") return add_metaspace(node);
  if (type == "Strip") return add_strip(node, fused);
  if (type == "WordPiece") {
    const json& prefix = json_member(node, "prefix");
    return push({.kind = Kind::kWordPiece,
                 .from = prefix.is_string() ? prefix.get<std::string>() : "##",
                 .cleanup = json_flag(node, "cleanup", true)});
  }
  if (type == "BPEDecoder") {
    const json& suffix = json_member(node, "suffix");
    return push({.kind = Kind::kWordSuffix, .from = suffix.is_string() ? suffix.get<std::string>() : "</w>"});
  }
  return json_unsupported("decoder", type);
}

Status TokenDecoder::add_replace(const json& node, bool fused) {
  WEIR_TRY(JsonPattern pattern, json_pattern(node));
  WEIR_TRY(std::string content, json_string(node, "content"));
  if (!pattern.regex) return push({.kind = Kind::kReplace, .from = std::move(pattern.text), .to = std::move(content)});
  if (fused) return json_unsupported("decoder", "Replace with a Regex behind Fuse");
  WEIR_TRY(Regex regex, Regex::compile(pattern.text));
  return push({.kind = Kind::kRegexReplace, .to = std::move(content), .regex = std::move(regex)});
}

Status TokenDecoder::add_metaspace(const json& node) {
  const json& replacement = json_member(node, "replacement");
  std::string mark = replacement.is_string() ? replacement.get<std::string>() : std::string(kSpaceMark);
  if (mark.empty())
    return fail(ErrorCode::kCorruptFile, "the Metaspace decoder in tokenizer.json has an empty replacement");
  const json& scheme = json_member(node, "prepend_scheme");
  const bool prepended = scheme.is_string() ? scheme != "never" : json_flag(node, "add_prefix_space", true);
  if (prepended) WEIR_RETURN_IF_ERROR(push({.kind = Kind::kStrip, .from = mark, .count = 1, .first_only = true}));
  return push({.kind = Kind::kReplace, .from = std::move(mark), .to = " "});
}

Status TokenDecoder::add_strip(const json& node, bool fused) {
  WEIR_TRY(std::string content, json_string(node, "content"));
  const auto count = [&](const char* key) {
    const json& n = json_member(node, key);
    return n.is_number_unsigned() ? n.get<std::size_t>() : 0;
  };
  const std::size_t start = count("start"), stop = count("stop");
  if (content.empty() || (start == 0 && stop == 0)) return {};
  // Of the whole text only what an encoder put in front can be taken off token by token.
  if (fused && (start != 1 || stop != 0)) return json_unsupported("decoder", "Strip of more than one character");
  return push(
      {.kind = Kind::kStrip, .from = std::move(content), .count = start, .count_end = stop, .first_only = fused});
}

bool TokenDecoder::minds_first() const {
  return std::any_of(steps_.begin(), steps_.end(), [](const Step& step) {
    return step.kind == Kind::kSpaceBefore || step.kind == Kind::kWordPiece ||
           (step.kind == Kind::kStrip && step.first_only);
  });
}

std::string TokenDecoder::apply(const Step& step, std::string text, bool first) {
  switch (step.kind) {
    case Kind::kByteLevel:
      return chars_to_bytes(text).value_or(text);
    case Kind::kByteFallback: {
      const auto byte = parse_byte_token(text);
      return byte ? std::string(1, static_cast<char>(*byte)) : text;
    }
    case Kind::kReplace:
      return replace_all(text, step.from, step.to);
    case Kind::kRegexReplace:
      return replaced(text, *step.regex, step.to);
    case Kind::kSpaceBefore:
      return first ? text : " " + text;
    case Kind::kWordPiece:
      if (!first) text = text.starts_with(step.from) ? text.substr(step.from.size()) : " " + text;
      return step.cleanup ? cleaned_up(std::move(text)) : text;
    case Kind::kWordSuffix:
      return replace_all(text, step.from, " ");
    case Kind::kStrip: {
      if (step.first_only && !first) return text;
      std::size_t begin = 0, end = text.size();
      const std::size_t size = step.from.size();
      for (std::size_t i = 0; i < step.count && text.compare(begin, size, step.from) == 0; ++i) begin += size;
      for (std::size_t i = 0; i < step.count_end && end - begin >= size; ++i) {
        if (text.compare(end - size, size, step.from) != 0) break;
        end -= size;
      }
      return text.substr(begin, end - begin);
    }
  }
  return text;
}

TokenDecoder::Decoded TokenDecoder::decode(std::string_view token, bool first) const {
  Decoded decoded{std::string(token)};
  for (const Step& step : steps_) {
    const bool suffixed = step.kind == Kind::kWordSuffix && decoded.bytes.ends_with(step.from) && !step.from.empty();
    std::string changed = apply(step, decoded.bytes, first);
    if (changed.size() > kMaxGrowth * token.size() + kFreeBytes) break;
    decoded.bytes = std::move(changed);
    if (suffixed) decoded.tail = 1;
  }
  return decoded;
}

}  // namespace weir::text
