#include "api/tokenizer_assets.h"

#include <array>
#include <filesystem>
#include <fstream>
#include <limits>
#include <utility>

#include "load/gguf.h"
#include "load/json_fields.h"
#include "load/limits.h"
#include "text/vocab_data.h"

namespace weir::api {
namespace {

using load::GgufFile;
using text::VocabData;

// A list of numbers of whatever type: scores are floats, but some files hold integers.
Result<std::vector<float>> read_scores(const GgufFile& gguf) {
  constexpr const char* kKey = "tokenizer.ggml.scores";
  if (const auto* values = gguf.get_doubles(kKey)) {
    std::vector<float> scores;
    for (const double v : *values) scores.push_back(static_cast<float>(v));
    return scores;
  }
  if (const auto* values = gguf.get_ints(kKey)) {
    std::vector<float> scores;
    for (const std::int64_t v : *values) scores.push_back(static_cast<float>(v));
    return scores;
  }
  if (gguf.metadata().contains(kKey))
    return fail_at(kKey, ErrorCode::kCorruptFile, "{} is not a list of numbers", kKey);
  return std::vector<float>{};
}

Result<std::vector<text::TokenType>> read_types(const GgufFile& gguf) {
  constexpr const char* kKey = "tokenizer.ggml.token_type";
  std::vector<text::TokenType> types;
  const auto* values = gguf.get_ints(kKey);
  if (values == nullptr) {
    if (gguf.metadata().contains(kKey))
      return fail_at(kKey, ErrorCode::kCorruptFile, "{} is not a list of integers", kKey);
    return types;
  }
  for (const std::int64_t v : *values) {
    if (v < 1 || v > 6) {
      return fail_at(kKey, ErrorCode::kCorruptFile, "{}[{}] is {}; types are 1 (normal) to 6 (byte)", kKey,
                     types.size(), v);
    }
    types.push_back(static_cast<text::TokenType>(v));
  }
  return types;
}

Result<std::vector<std::string>> read_strings(const GgufFile& gguf, const char* key) {
  if (const auto* values = gguf.get_strings(key)) return *values;
  if (gguf.metadata().contains(key)) return fail_at(key, ErrorCode::kCorruptFile, "{} is not a list of strings", key);
  return std::vector<std::string>{};
}

Status read_id(const GgufFile& gguf, const std::string& name, std::optional<TokenId>& id) {
  const std::string key = fmt::format("tokenizer.ggml.{}_token_id", name);
  const auto value = gguf.get_int(key);
  if (!value) return {};
  // Some files write "none" as the largest 32-bit number.
  if (*value == std::numeric_limits<std::uint32_t>::max() || *value == -1) return {};
  if (*value < 0 || *value > std::numeric_limits<TokenId>::max()) {
    return fail_at(key, ErrorCode::kCorruptFile, "{} is {}, which is no token id", key, *value);
  }
  id = static_cast<TokenId>(*value);
  return {};
}

Result<VocabData> read_vocab(const GgufFile& gguf) {
  VocabData vocab;
  const auto string = [&](const char* key) {
    const std::string* value = gguf.get_string(key);
    return value != nullptr ? *value : std::string();
  };
  vocab.architecture = string("general.architecture");
  vocab.model = string("tokenizer.ggml.model");
  vocab.pre = string("tokenizer.ggml.pre");
  if (vocab.model.empty()) {
    return fail_at("tokenizer.ggml.model", ErrorCode::kCorruptFile,
                   "the file has no tokenizer.ggml.model: it holds no vocabulary to tokenize with");
  }
  WEIR_TRY(vocab.tokens, read_strings(gguf, "tokenizer.ggml.tokens"));
  WEIR_TRY(vocab.merges, read_strings(gguf, "tokenizer.ggml.merges"));
  WEIR_TRY(vocab.scores, read_scores(gguf));
  WEIR_TRY(vocab.types, read_types(gguf));
  const std::pair<const char*, std::optional<TokenId>*> ids[] = {
      {"bos", &vocab.bos},         {"eos", &vocab.eos},
      {"eot", &vocab.eot},         {"eom", &vocab.eom},
      {"unknown", &vocab.unknown}, {"padding", &vocab.padding},
      {"cls", &vocab.cls},         {"seperator", &vocab.separator}};  // "seperator": so is the key
  for (const auto& [name, id] : ids) WEIR_RETURN_IF_ERROR(read_id(gguf, name, *id));
  vocab.add_bos = gguf.get_bool("tokenizer.ggml.add_bos_token");
  vocab.add_eos = gguf.get_bool("tokenizer.ggml.add_eos_token");
  vocab.add_separator = gguf.get_bool("tokenizer.ggml.add_sep_token");
  vocab.lowercase = gguf.get_bool("tokenizer.ggml.normalizer.lowercase");
  vocab.strip_accents = gguf.get_bool("tokenizer.ggml.normalizer.strip_accents");
  if (const auto* bytes = gguf.get_ints("tokenizer.ggml.precompiled_charsmap")) {
    for (const std::int64_t byte : *bytes) vocab.charsmap.push_back(static_cast<char>(byte));
  }
  vocab.add_space_prefix = gguf.get_bool("tokenizer.ggml.add_space_prefix");
  vocab.remove_extra_whitespaces = gguf.get_bool("tokenizer.ggml.remove_extra_whitespaces");
  return vocab;
}

Result<std::unique_ptr<text::Tokenizer>> from_gguf(const GgufFile& gguf) {
  if (const std::string* json = gguf.get_string("tokenizer.huggingface.json"); json != nullptr && !json->empty()) {
    const std::string* config = gguf.get_string("tokenizer.huggingface.config");
    return text::Tokenizer::from_json(*json, config == nullptr ? std::string_view() : std::string_view(*config));
  }
  WEIR_TRY(VocabData vocab, read_vocab(gguf));
  return text::Tokenizer::from_vocab(std::move(vocab));
}

// An error that says which file it is about.
template <class T>
Result<T> about(const std::string& path, Result<T> result) {
  if (!result && result.error().message.find(path) == std::string::npos) {
    result.error().message = fmt::format("{}: {}", path, result.error().message);
  }
  return result;
}

// The vocabulary of a folder that has no tokenizer.json.
Result<std::unique_ptr<text::Tokenizer>> from_other_files(const std::string& folder, const std::string& config) {
  for (const char* name : {"tekken.json", "tokenizer.model", "tiktoken.model", "qwen.tiktoken"}) {
    const std::string path = folder + "/" + name;
    std::error_code ignored;
    if (!std::filesystem::exists(path, ignored)) continue;
    WEIR_TRY(const std::string content, load::read_text_file(path, load::kMaxTokenizerBytes));
    if (std::string_view(name) == "tekken.json") return about(path, text::Tokenizer::from_tekken(content));
    // A SentencePiece model begins with the field of its first piece; ranks begin with base64.
    const bool pieces = content.starts_with('\n');
    return about(path, pieces ? text::Tokenizer::from_sentencepiece(content, config)
                              : text::Tokenizer::from_tiktoken(content, config));
  }
  return fail(ErrorCode::kNotFound,
              "{}: there is no vocabulary: none of tokenizer.json, tekken.json, tokenizer.model, tiktoken.model and "
              "qwen.tiktoken",
              folder);
}

bool starts_like_gguf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::array<char, 4> magic{};
  return file.read(magic.data(), magic.size()) && std::string_view(magic.data(), magic.size()) == "GGUF";
}

}  // namespace

Result<std::unique_ptr<text::Tokenizer>> load_tokenizer(const load::ModelFiles& files) {
  if (!files.tokenizer_json.empty()) {
    return about(files.path, text::Tokenizer::from_json(files.tokenizer_json, files.tokenizer_config_json));
  }
  if (files.gguf != nullptr) return about(files.path, from_gguf(*files.gguf));
  return from_other_files(files.path, files.tokenizer_config_json);
}

Result<std::unique_ptr<text::Tokenizer>> load_tokenizer_file(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  std::string json_path = path, config;
  if (fs::is_directory(path, ignored)) {
    json_path = path + "/tokenizer.json";
    const std::string config_path = path + "/tokenizer_config.json";
    if (fs::exists(config_path, ignored)) {
      WEIR_TRY(config, load::read_text_file(config_path, load::kMaxTokenizerBytes));
    }
    if (!fs::exists(json_path, ignored)) return from_other_files(path, config);
  } else if (starts_like_gguf(path)) {
    WEIR_TRY(const auto gguf, GgufFile::open(path));
    return about(path, from_gguf(*gguf));
  }
  WEIR_TRY(const std::string json, load::read_text_file(json_path, load::kMaxTokenizerBytes));
  return about(json_path, text::Tokenizer::from_json(json, config));
}

}  // namespace weir::api
