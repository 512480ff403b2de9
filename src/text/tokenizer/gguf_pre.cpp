#include "text/tokenizer/gguf_pre.h"

namespace weir::text {
namespace {

struct Row {
  std::string_view name;
  PreRules rules;
};

const std::vector<Row>& rows() {
  static const auto* const kRows = [] {
    const PreRules gpt2{.scanners = {scan_gpt2}};
    const PreRules digits_gpt2{.scanners = {scan_each_number, scan_gpt2}};
    const PreRules digits_gpt2_nfc{.scanners = {scan_each_number, scan_gpt2}, .nfc = true};
    const PreRules llama3{.scanners = {scan_llama3}, .ignore_merges = true, .add_bos = true};
    const PreRules llama3_split{.scanners = {scan_llama3}};
    const PreRules qwen2{.scanners = {scan_qwen2}, .nfc = true};
    const PreRules qwen35{.scanners = {scan_qwen35}, .nfc = true};
    const PreRules gpt4o{.scanners = {scan_gpt4o}, .ignore_merges = true};
    const PreRules tekken{.scanners = {scan_tekken}, .ignore_merges = true};
    const PreRules deepseek{.scanners = {scan_numbers_by_three, scan_deepseek_cjk, scan_deepseek_words}};
    return new std::vector<Row>{
        {"", gpt2},
        {"default", gpt2},
        {"gpt-2", gpt2},
        {"phi-2", gpt2},
        {"mpt", gpt2},
        {"olmo", gpt2},
        {"jais", gpt2},
        {"smollm", digits_gpt2},
        {"starcoder", digits_gpt2},
        {"refact", digits_gpt2},
        {"codeshell", digits_gpt2},
        {"exaone", digits_gpt2},
        {"command-r", digits_gpt2_nfc},
        {"llama-bpe", llama3},
        {"llama3", llama3},
        {"llama-v3", llama3},
        {"falcon3", llama3},
        {"pixtral", llama3},
        {"dbrx", llama3_split},
        {"smaug-bpe", llama3_split},
        {"chatglm-bpe", llama3_split},
        {"glm4", llama3_split},
        {"qwen2", qwen2},
        {"deepseek-r1-qwen", qwen2},
        {"stablelm2", {.scanners = {scan_qwen2}}},
        {"qwen35", qwen35},
        {"gpt-4o", gpt4o},
        {"tekken", tekken},
        {"deepseek-v3", deepseek},
    };
  }();
  return *kRows;
}

}  // namespace

Result<PreRules> rules_for_pre(std::string_view name) {
  std::string known;
  for (const Row& row : rows()) {
    if (row.name == name) return row.rules;
    if (!row.name.empty()) known.append(known.empty() ? "" : ", ").append(row.name);
  }
  return fail_at("tokenizer.ggml.pre", ErrorCode::kUnsupported,
                 "tokenizer.ggml.pre is \"{}\", a pre-tokenizer weir does not know; it knows {}. A tokenizer.json "
                 "beside the model "
                 "says what is needed",
                 name, known);
}

}  // namespace weir::text
