#include "text/tokenizer/gguf_pre.h"

#include <algorithm>
#include <utility>

namespace weir::text {
namespace {

#define WEIR_CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define WEIR_LETTERS "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"
#define WEIR_SPACES "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define WEIR_CASED_LETTERS(EXCEPT)                                                                           \
  "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}" EXCEPT "]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}" EXCEPT \
  "]+" WEIR_CONTRACTIONS                                                                                     \
  "?|"                                                                                                       \
  "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}" EXCEPT "]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}" EXCEPT \
  "]*" WEIR_CONTRACTIONS "?"
#define WEIR_ASCII_PUNCTUATED \
  "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"

constexpr const char* kLineEnds = "[\r\n]";
constexpr const char* kDeepSeekLetters =
    "\\s?[A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af\u0370-\u0373"
    "\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f"
    "\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77"
    "\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d"
    "\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4"
    "\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139"
    "\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d"
    "\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a"
    "\uff41-\uff5a\U00010400-\U0001044f\U000104b0-\U000104d3\U000104d8-\U000104fb\U00010c80-\U00010cb2"
    "\U00010cc0-\U00010cf2\U000118a0-\U000118df\U0001e900-\U0001e943]+";
constexpr const char* kDeepSeekSigns = "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+";
constexpr const char* kDeepSeekIdeographs = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+";
// Everything up to the next sign that ends a phrase; the inner brackets are a set of their own.
constexpr const char* kPhrases = " ?[^(\\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+";
constexpr const char* kEastAsian =
    "[\u4e00-\u9fff\u3400-\u4dbf\uf900-\ufaff\u3040-\u309f\u30a0-\u30ff\uff65-\uff9f\u2f00-\u2fdf\u0e40-\u0e7f"
    "\u0e80-\u0eff\u1780-\u17ff\u1000-\u109f\uaa60-\uaa7f\ua9e0-\ua9ff\uac00-\ud7af\u1100-\u11ff]+";

struct Row {
  std::vector<std::string_view> names;
  PreRules rules;
};

PreSplit by(Scanner scanner) {
  return {.scanner = scanner};
}
PreSplit by(const char* pattern) {
  return {.pattern = pattern};
}
PreSplit by(PreSplit::Part part) {
  return {.part = part};
}

// A split by scanners that begins with GPT-2's, Llama 3's ... rules.
std::vector<Row> rows_with_scanners() {
  const PreSplit gpt2 = by(scan_gpt2), each_number = by(scan_each_number), llama3 = by(scan_llama3),
                 qwen2 = by(scan_qwen2);
  const std::vector<PreSplit> deepseek3{by(scan_numbers_by_three), by(scan_deepseek_cjk), by(scan_deepseek_words)};
  return {
      {{"", "default", "gpt-2", "phi-2", "jais", "trillion", "granite-docling", "jina-es", "jina-de", "jina-v2-es",
        "jina-v2-de", "jina-v1-en", "jina-v2-code", "gigachat", "a.x-4.0", "mellum", "modern-bert", "roberta-bpe",
        "exaone4"},
       {.splits = {gpt2}}},
      {{"mpt", "olmo"}, {.splits = {gpt2}, .nfc = true}},
      {{"smollm", "starcoder", "refact", "codeshell", "exaone", "minerva-7b", "mellum2"},
       {.splits = {each_number, gpt2}}},
      {{"command-r"}, {.splits = {each_number, gpt2}, .nfc = true}},
      {{"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano"},
       {.splits = {llama3}, .ignore_merges = true, .add_bos = true}},
      {{"dbrx", "smaug-bpe", "chatglm-bpe", "glm4"}, {.splits = {llama3}}},
      {{"minicpm5"}, {.splits = {by(scan_numbers_by_three), llama3}, .ignore_merges = true}},
      {{"qwen2", "deepseek-r1-qwen", "kormo", "f2llmv2", "megrez"}, {.splits = {qwen2}, .nfc = true}},
      {{"stablelm2", "hunyuan", "solar-open", "grok-2"}, {.splits = {qwen2}}},
      {{"laguna"}, {.splits = {by("[^\\n]+|[\\n]+"), qwen2}}},
      {{"qwen35"}, {.splits = {by(scan_qwen35)}, .nfc = true}},
      {{"gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2", "granite-embed-multi-97m"},
       {.splits = {by(scan_gpt4o)}, .ignore_merges = true}},
      {{"tiny_aya", "cohere2moe"}, {.splits = {by("\\d{1,3}(?=(?:\\d{3})*\\b)"), by(scan_gpt4o)}}},
      {{"tekken"}, {.splits = {by(scan_tekken)}, .ignore_merges = true}},
      {{"deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"}, {.splits = deepseek3}},
      {{"afmoe"}, {.splits = {by("\\p{N}{1,3}(?=(?:\\p{N}{3})*(?!\\p{N}))"), by(kEastAsian), by(scan_deepseek_words)}}},
      {{"falcon"},
       {.splits = {by(PreSplit::Part::kPunctuationRuns), gpt2, by(PreSplit::Part::kByteChars),
                   by(PreSplit::Part::kDigitRuns), by("[0-9][0-9][0-9]")}}},
  };
}

std::vector<Row> rows_with_patterns() {
  const PreSplit each_number = by(scan_each_number);
  return {
      {{"deepseek-llm"},
       {.splits = {by(kLineEnds), by(kDeepSeekLetters), by(kDeepSeekSigns), by("\\s+$"), by(kDeepSeekIdeographs),
                   each_number}}},
      {{"deepseek-coder"},
       {.splits = {by(kLineEnds), by("\\s?\\p{L}+"), by("\\s?\\p{P}+"), by(kDeepSeekIdeographs), each_number}}},
      {{"spark2_5"},
       {.splits = {by(scan_numbers_by_three), by(scan_deepseek_cjk),
                   by(WEIR_ASCII_PUNCTUATED "| ?[\\p{P}\\p{S}]+|[\\r\\n]|\\s+(?!\\S)|\\s+"), each_number}}},
      {{"youtu"},
       {.splits = {by("[\uac00-\ud7a3\u3131-\u318e]+|[\uff01\u2026\u201c\u201d\u2018\u2019\u2014\uff1a\uff1b\uff0c"
                      "\u3001-\u303f\ufe30-\ufe4f]+|[\u3105-\u312f]+|[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"),
                   by(WEIR_CASED_LETTERS("") "|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" WEIR_SPACES)},
        .ignore_merges = true}},
      {{"bloom", "gpt3-finnish", "poro-chat"}, {.splits = {by(kPhrases)}}},
      {{"viking"}, {.splits = {by(kPhrases), each_number}}},
      {{"chameleon"},
       {.splits = {by("<sentinel:[0-9]+>"), by("(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z"), by("([\\t\\n]|    |  )"),
                   each_number, by("[\\p{P}!-/:-@\\[-`{-~]"), by(scan_gpt2)},
        .add_bos = true}},
      {{"jais-2"},
       {.splits = {by(WEIR_CONTRACTIONS
                      "|" WEIR_LETTERS
                      "|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s{512}(?!\\S)|\\s{256}(?!\\S)|"
                      "\\s{128}(?!\\S)|\\s{64}(?!\\S)|\\s{32}(?!\\S)|\\s{16}(?!\\S)|\\s{8}(?!\\S)|\\s{4}(?!\\S)|"
                      "\\s{1,2}(?!\\S)|\\s{1}")}}},
      {{"kimi-k2"},
       {.splits = {by("\\p{Han}+|" WEIR_CASED_LETTERS(
            "&&[^\\p{Han}]") "|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" WEIR_SPACES)},
        .ignore_merges = true}},
      {{"superbpe"}, {.splits = {by("\\p{N}+"), by("(?=(\\d{3})+(?!\\d))")}}},
      {{"bailingmoe", "bailingmoe2", "llada-moe"},
       {.splits = {by("'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|"
                      "\\s*[\\r\\n]|\\s+(?!\\S)|\\s+")}}},
      {{"seed-coder"},
       {.splits = {by(WEIR_CONTRACTIONS "|" WEIR_LETTERS "|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|" WEIR_SPACES)}}},
      {{"ufakzeka"}, {.splits = {by(WEIR_LETTERS "|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" WEIR_SPACES)}}},
      {{"exaone-moe"},
       {.splits = {by(WEIR_CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\p{N}|"
                                        " ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+")}}},
      {{"gemma4", "granite-embed-multi-311m", "sarvam-moe"}, {.whole_text = true}},
  };
}

const std::vector<Row>& rows() {
  static const auto* const kRows = [] {
    auto* all = new std::vector<Row>(rows_with_scanners());
    for (Row& row : rows_with_patterns()) all->push_back(std::move(row));
    return all;
  }();
  return *kRows;
}

}  // namespace

Result<PreRules> rules_for_pre(std::string_view name) {
  std::string known;
  for (const Row& row : rows()) {
    for (const std::string_view each : row.names) {
      if (each == name) return row.rules;
      if (!each.empty()) known.append(known.empty() ? "" : ", ").append(each);
    }
  }
  return fail_at("tokenizer.ggml.pre", ErrorCode::kUnsupported,
                 "tokenizer.ggml.pre is \"{}\", a pre-tokenizer weir does not know; it knows {}. A tokenizer.json "
                 "beside the model "
                 "says what is needed",
                 name, known);
}

std::vector<std::string_view> pre_names() {
  std::vector<std::string_view> names;
  for (const Row& row : rows()) {
    const auto named = std::ranges::find_if(row.names, [](auto name) { return !name.empty() && name != "default"; });
    if (named != row.names.end()) names.push_back(*named);
  }
  return names;
}

Result<std::vector<StagePtr>> stages_for(const PreRules& rules) {
  std::vector<StagePtr> stages;
  for (const PreSplit& split : rules.splits) {
    if (split.scanner != nullptr) {
      stages.push_back(scanner_stage(split.scanner));
    } else if (split.pattern != nullptr) {
      WEIR_TRY(Regex regex, Regex::compile(split.pattern));
      stages.push_back(regex_stage(std::move(regex), SplitBehavior::kIsolated, false));
    } else if (split.part == PreSplit::Part::kPunctuationRuns) {
      stages.push_back(char_set_stage(CharKind::kPunctuation, SplitBehavior::kContiguous));
    } else if (split.part == PreSplit::Part::kDigitRuns) {
      stages.push_back(char_set_stage(CharKind::kNumber, SplitBehavior::kContiguous));
    } else {
      stages.push_back(byte_chars_stage());
    }
  }
  return stages;
}

bool gives_byte_chars(const PreRules& rules) {
  return std::ranges::any_of(rules.splits,
                             [](const PreSplit& split) { return split.part == PreSplit::Part::kByteChars; });
}

}  // namespace weir::text
