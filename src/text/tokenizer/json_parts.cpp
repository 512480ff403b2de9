#include "text/tokenizer/json_parts.h"

#include <optional>
#include <utility>

#include "text/tokenizer/byte_token.h"
#include "text/tokenizer/unicode.h"

namespace weir::text {

using nlohmann::json;

namespace {

constexpr std::size_t kMaxPatternBytes = 1024;  // of a plain string to split at or replace
constexpr std::string_view kSpaceMark = "\u2581";

}  // namespace

std::string json_type(const json& node) {
  const json& type = json_member(node, "type");
  return type.is_string() ? type.get<std::string>() : std::string();
}

const json& json_member(const json& node, const char* key) {
  static const json kNull;
  if (!node.is_object()) return kNull;
  const auto found = node.find(key);
  return found == node.end() ? kNull : *found;
}

bool json_flag(const json& node, const char* key, bool absent) {
  const json& flag = json_member(node, key);
  return flag.is_boolean() ? flag.get<bool>() : absent;
}

Result<std::string> json_string(const json& node, const char* key) {
  const json& text = json_member(node, key);
  if (!text.is_string()) {
    return fail(ErrorCode::kCorruptFile, "a {} in tokenizer.json has no string \"{}\"", json_type(node), key);
  }
  return text.get<std::string>();
}

tl::unexpected<Error> json_unsupported(const char* what, const std::string& type) {
  return fail(ErrorCode::kUnsupported, "tokenizer.json has a {} of type \"{}\", which weir does not have", what, type);
}

tl::unexpected<Error> json_too_deep(const char* what) {
  return fail(ErrorCode::kUnsupported, "tokenizer.json nests {} more than {} deep", what, kMaxJsonNesting);
}

Result<const json*> json_members(const json& node, const char* key) {
  const json& list = json_member(node, key);
  if (!list.is_array()) return fail(ErrorCode::kCorruptFile, "a Sequence in tokenizer.json has no list \"{}\"", key);
  return &list;
}

Result<JsonPattern> json_pattern(const json& node) {
  const json& pattern = json_member(node, "pattern");
  const json& plain = json_member(pattern, "String");
  const json& regex = json_member(pattern, "Regex");
  const json& text = plain.is_string() ? plain : regex;
  if (!text.is_string()) {
    return fail(ErrorCode::kCorruptFile, "a {} in tokenizer.json has no pattern (a String or a Regex)",
                json_type(node));
  }
  JsonPattern result{text.get<std::string>(), !plain.is_string()};
  if (result.text.empty())
    return fail(ErrorCode::kCorruptFile, "a {} in tokenizer.json has an empty pattern", json_type(node));
  if (!result.regex && result.text.size() > kMaxPatternBytes) {
    return fail(ErrorCode::kUnsupported, "a {} in tokenizer.json has a pattern of {} bytes; weir allows {}",
                json_type(node), result.text.size(), kMaxPatternBytes);
  }
  return result;
}

namespace {

Status add_normalizer(const json& node, int depth, std::vector<NormalizerStep>& steps) {
  const std::string type = json_type(node);
  if (depth > kMaxJsonNesting) return json_too_deep("normalizers");
  if (type == "Sequence") {
    WEIR_TRY(const json* list, json_members(node, "normalizers"));
    for (const json& member : *list) WEIR_RETURN_IF_ERROR(add_normalizer(member, depth + 1, steps));
  } else if (type == "Prepend") {
    WEIR_TRY(std::string text, json_string(node, "prepend"));
    steps.emplace_back(PrependStep{std::move(text)});
  } else if (type == "Replace") {
    WEIR_TRY(JsonPattern pattern, json_pattern(node));
    WEIR_TRY(std::string content, json_string(node, "content"));
    if (!pattern.regex) {
      steps.emplace_back(ReplaceStep{std::move(pattern.text), std::move(content)});
    } else {
      WEIR_TRY(Regex regex, Regex::compile(pattern.text));
      steps.emplace_back(RegexReplaceStep{std::move(regex), std::move(content)});
    }
  } else if (type == "NFC" || type == "NFD" || type == "NFKC" || type == "NFKD") {
    const NormalForm form = type == "NFC"    ? NormalForm::kNfc
                            : type == "NFD"  ? NormalForm::kNfd
                            : type == "NFKC" ? NormalForm::kNfkc
                                             : NormalForm::kNfkd;
    steps.emplace_back(FormStep{form});
  } else if (type == "Strip") {
    steps.emplace_back(StripStep{json_flag(node, "strip_left", true), json_flag(node, "strip_right", true)});
  } else if (type == "Lowercase") {
    steps.emplace_back(LowercaseStep{});
  } else if (type == "StripAccents") {
    steps.emplace_back(StripAccentsStep{});
  } else if (type == "BertNormalizer") {
    const bool lowercase = json_flag(node, "lowercase", true);
    steps.emplace_back(BertStep{.clean = json_flag(node, "clean_text", true),
                                .set_ideographs_apart = json_flag(node, "handle_chinese_chars", true),
                                .strip_accents = json_flag(node, "strip_accents", lowercase),
                                .lowercase = lowercase});
  } else if (type == "Nmt") {
    steps.emplace_back(NmtStep{});
  } else if (type == "ByteLevel") {
    steps.emplace_back(ByteCharsStep{});
  } else if (type == "Precompiled") {
    const json& map = json_member(node, "precompiled_charsmap");
    if (map.is_null() || map == "") return {};
    WEIR_TRY(const std::string encoded, json_string(node, "precompiled_charsmap"));
    WEIR_TRY(Charsmap charsmap, Charsmap::parse(bytes_of_base64(encoded)));
    steps.emplace_back(CharsmapStep{std::move(charsmap), CharsmapUnits::kGraphemes});
  } else {
    return json_unsupported("normalizer", type);
  }
  return {};
}

}  // namespace

Result<Normalizer> normalizer_from_json(const json& node) {
  std::vector<NormalizerStep> steps;
  if (!node.is_null()) WEIR_RETURN_IF_ERROR(add_normalizer(node, 0, steps));
  return Normalizer::sequence(std::move(steps));
}

namespace {

Result<SplitBehavior> behavior_of(const json& node, SplitBehavior absent) {
  const json& name = json_member(node, "behavior");
  if (name.is_null()) return absent;
  const std::pair<const char*, SplitBehavior> kNames[] = {{"Removed", SplitBehavior::kRemoved},
                                                          {"Isolated", SplitBehavior::kIsolated},
                                                          {"MergedWithPrevious", SplitBehavior::kMergedWithPrevious},
                                                          {"MergedWithNext", SplitBehavior::kMergedWithNext},
                                                          {"Contiguous", SplitBehavior::kContiguous}};
  for (const auto& [text, behavior] : kNames) {
    if (name == text) return behavior;
  }
  return fail(ErrorCode::kUnsupported, "tokenizer.json has a split behavior weir does not know: {}",
              name.is_string() ? name.get<std::string>() : "(not a string)");
}

Result<StagePtr> split_stage(const json& node) {
  WEIR_TRY(JsonPattern pattern, json_pattern(node));
  WEIR_TRY(const SplitBehavior behavior, behavior_of(node, SplitBehavior::kRemoved));
  const bool invert = json_flag(node, "invert", false);
  if (!pattern.regex) return string_stage(std::move(pattern.text), behavior, invert);
  if (behavior == SplitBehavior::kIsolated) {  // then it does not matter what counts as the match
    if (const Scanner scanner = scanner_for_pattern(pattern.text)) return scanner_stage(scanner);
  }
  WEIR_TRY(Regex regex, Regex::compile(pattern.text));
  return regex_stage(std::move(regex), behavior, invert);
}

Result<StagePtr> metaspace(const json& node) {
  const json& replacement = json_member(node, "replacement");
  std::string mark = replacement.is_string() ? replacement.get<std::string>() : std::string(kSpaceMark);
  if (mark.empty() || char_at(mark, 0).size != mark.size()) {
    return fail(ErrorCode::kCorruptFile,
                "the replacement of a Metaspace in tokenizer.json is \"{}\", not one character", mark);
  }
  const json& scheme = json_member(node, "prepend_scheme");
  Prepend prepend = Prepend::kAlways;
  if (scheme == "first") prepend = Prepend::kFirst;
  if (scheme == "never" || (scheme.is_null() && !json_flag(node, "add_prefix_space", true))) prepend = Prepend::kNever;
  return metaspace_stage(std::move(mark), prepend, json_flag(node, "split", true));
}

Status add_pre_tokenizer(const json& node, int depth, PreTokenizerParts& parts) {
  const std::string type = json_type(node);
  auto& stages = parts.stages;
  if (depth > kMaxJsonNesting) return json_too_deep("pre-tokenizers");
  if (type == "Sequence") {
    WEIR_TRY(const json* list, json_members(node, "pretokenizers"));
    for (const json& member : *list) WEIR_RETURN_IF_ERROR(add_pre_tokenizer(member, depth + 1, parts));
    return {};
  }
  if (stages.size() >= PreTokenizer::kMaxStages) {
    return fail(ErrorCode::kUnsupported, "tokenizer.json chains more than {} pre-tokenizers", PreTokenizer::kMaxStages);
  }
  // A stage behind ByteLevel sees GPT-2's characters in place of bytes.
  if (parts.byte_level && !parts.byte_chars) {
    stages.push_back(byte_chars_stage());
    parts.byte_chars = true;
  }
  if (type == "ByteLevel") {
    if (parts.byte_level) return json_unsupported("second pre-tokenizer", type);
    if (json_flag(node, "add_prefix_space", true)) stages.push_back(prefix_space_stage());
    if (json_flag(node, "use_regex", true)) stages.push_back(scanner_stage(scan_gpt2));
    parts.byte_level = true;
  } else if (type == "Split") {
    WEIR_TRY(StagePtr stage, split_stage(node));
    stages.push_back(std::move(stage));
  } else if (type == "Metaspace") {
    WEIR_TRY(StagePtr stage, metaspace(node));
    stages.push_back(std::move(stage));
  } else if (type == "Digits") {
    const bool each = json_flag(node, "individual_digits", false);
    stages.push_back(each ? scanner_stage(scan_each_number)
                          : char_set_stage(CharKind::kNumber, SplitBehavior::kContiguous));
  } else if (type == "Punctuation") {
    WEIR_TRY(const SplitBehavior behavior, behavior_of(node, SplitBehavior::kIsolated));
    stages.push_back(char_set_stage(CharKind::kPunctuation, behavior));
  } else if (type == "Whitespace") {
    stages.push_back(words_and_symbols_stage());
  } else if (type == "WhitespaceSplit") {
    stages.push_back(char_set_stage(CharKind::kSpace, SplitBehavior::kRemoved));
  } else if (type == "BertPreTokenizer") {
    stages.push_back(char_set_stage(CharKind::kSpace, SplitBehavior::kRemoved));
    stages.push_back(char_set_stage(CharKind::kPunctuation, SplitBehavior::kIsolated));
  } else if (type == "UnicodeScripts") {
    stages.push_back(scripts_stage());
  } else if (type == "CharDelimiterSplit") {
    WEIR_TRY(std::string delimiter, json_string(node, "delimiter"));
    if (delimiter.empty() || char_at(delimiter, 0).size != delimiter.size()) {
      return fail(ErrorCode::kCorruptFile,
                  "the delimiter of a CharDelimiterSplit in tokenizer.json is \"{}\", not one character", delimiter);
    }
    stages.push_back(string_stage(std::move(delimiter), SplitBehavior::kRemoved, false));
  } else if (type == "FixedLength") {
    const json& length = json_member(node, "length");
    if (!length.is_number_unsigned() || length == 0U) {
      return fail(ErrorCode::kCorruptFile, "a FixedLength in tokenizer.json has no length above 0");
    }
    stages.push_back(fixed_length_stage(length.get<std::size_t>()));
  } else {
    return json_unsupported("pre-tokenizer", type);
  }
  return {};
}

}  // namespace

Result<PreTokenizerParts> pre_tokenizer_from_json(const json& node) {
  PreTokenizerParts parts;
  if (!node.is_null()) WEIR_RETURN_IF_ERROR(add_pre_tokenizer(node, 0, parts));
  return parts;
}

namespace {

// A piece of a template: {"SpecialToken": {"id": name}} or {"Sequence": {...}}.
Status add_template(const json& node, Framing& framing) {
  const json& single = json_member(node, "single");
  if (!single.is_array())
    return fail(ErrorCode::kCorruptFile, "TemplateProcessing in tokenizer.json has no list \"single\"");
  const json& special = json_member(node, "special_tokens");
  bool behind = false;
  std::vector<std::int64_t> before;
  for (const json& piece : single) {
    if (json_member(piece, "Sequence").is_object()) {
      behind = true;
      continue;
    }
    WEIR_TRY(const std::string name, json_string(json_member(piece, "SpecialToken"), "id"));
    const json& ids = json_member(json_member(special, name.c_str()), "ids");
    if (!ids.is_array()) {
      return fail(ErrorCode::kCorruptFile,
                  "TemplateProcessing in tokenizer.json uses \"{}\", which its special_tokens lack", name);
    }
    for (const json& id : ids) {
      if (!id.is_number_integer())
        return fail(ErrorCode::kCorruptFile, "an id of special token \"{}\" is no integer", name);
      (behind ? framing.after : before).push_back(id.get<std::int64_t>());
    }
  }
  framing.before.insert(framing.before.begin(), before.begin(), before.end());  // around what earlier ones added
  framing.stated = true;
  return {};
}

Status add_pair(const json& node, const char* key, std::vector<std::int64_t>& ids) {
  const json& pair = json_member(node, key);  // [text, id]
  if (!pair.is_array() || pair.size() != 2 || !pair[1].is_number_integer()) {
    return fail(ErrorCode::kCorruptFile, "{} in tokenizer.json has no pair \"{}\" of a token and its id",
                json_type(node), key);
  }
  ids.push_back(pair[1].get<std::int64_t>());
  return {};
}

Status add_processor(const json& node, int depth, Framing& framing) {
  const std::string type = json_type(node);
  if (depth > kMaxJsonNesting) return json_too_deep("post-processors");
  if (type == "Sequence") {
    WEIR_TRY(const json* list, json_members(node, "processors"));
    for (const json& member : *list) WEIR_RETURN_IF_ERROR(add_processor(member, depth + 1, framing));
    return {};
  }
  if (type == "ByteLevel") return {};  // changes offsets only
  if (type == "TemplateProcessing") return add_template(node, framing);
  if (type == "BertProcessing" || type == "RobertaProcessing") {
    framing.stated = true;
    std::vector<std::int64_t> cls;
    WEIR_RETURN_IF_ERROR(add_pair(node, "cls", cls));
    framing.before.insert(framing.before.begin(), cls.begin(), cls.end());
    return add_pair(node, "sep", framing.after);
  }
  return json_unsupported("post-processor", type);
}

}  // namespace

Result<Framing> framing_from_json(const json& node) {
  Framing framing;
  if (!node.is_null()) WEIR_RETURN_IF_ERROR(add_processor(node, 0, framing));
  return framing;
}

}  // namespace weir::text
