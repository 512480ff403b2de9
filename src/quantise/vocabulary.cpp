#include "quantise/vocabulary.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "base/check.h"
#include "load/json_fields.h"
#include "load/limits.h"
#include "text/tokenizer.h"
#include "text/tokenizer/byte_chars.h"
#include "text/tokenizer/byte_token.h"
#include "text/tokenizer/gguf_pre.h"
#include "text/vocab_data.h"

namespace weir::quantise {
namespace {

using nlohmann::json;
using text::TokenType;
using text::VocabData;

// The steps of a part of tokenizer.json that is one step, a list of them under `list`, or nothing.
std::vector<json> steps_of(const json& document, const char* part, const char* list) {
  const json step = document.value(part, json());
  if (!step.is_object()) return {};
  const auto inner = step.find(list);
  if (step.value("type", json("")) == "Sequence" && inner != step.end() && inner->is_array()) return *inner;
  return {step};
}

std::vector<std::string> merges_of(const json& model) {
  std::vector<std::string> merges;
  const json list = model.value("merges", json::array());
  if (!list.is_array()) return merges;
  for (const json& merge : list) {
    if (merge.is_string()) {
      merges.push_back(merge.get<std::string>());
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      merges.push_back(merge[0].get<std::string>() + " " + merge[1].get<std::string>());
    }
  }
  return merges;
}

constexpr float kNeverMade = -1e9f;

// A piece that merges make is the better the earlier its merge stands; others are never made.
std::vector<float> scores_of(const std::vector<std::string>& tokens, const std::vector<std::string>& merges) {
  std::unordered_map<std::string, float> score;
  for (std::size_t i = 0; i < merges.size(); ++i) {
    std::string piece = merges[i];
    if (const std::size_t space = piece.find(' ', 1); space != std::string::npos) piece.erase(space, 1);
    score.emplace(std::move(piece), -static_cast<float>(i));
  }
  std::vector<float> scores;
  for (const std::string& token : tokens) {
    const auto found = score.find(token);
    scores.push_back(found == score.end() ? kNeverMade : found->second);
  }
  return scores;
}

void read_tokens(const text::Tokenizer& tokenizer, const json& document, int vocab, bool pieces, VocabData& to) {
  std::unordered_map<std::string, bool> added;  // special?
  const json list = document.value("added_tokens", json::array());
  for (const json& token : list.is_array() ? list : json::array()) {
    if (token.is_object() && token.value("content", json()).is_string())
      added.emplace(token["content"].get<std::string>(), token.value("special", json(false)) == true);
  }
  for (int id = 0; id < vocab; ++id) {
    std::string text = id < tokenizer.vocab_size() ? std::string(tokenizer.token_text(id)) : std::string();
    TokenType type = TokenType::kNormal;
    if (text.empty()) {
      text = fmt::format("[PAD{}]", id);
      type = TokenType::kUnused;
    } else if (const auto found = added.find(text); found != added.end()) {
      type = tokenizer.is_control(id) || found->second ? TokenType::kControl : TokenType::kUserDefined;
      if (pieces && text == "<unk>") type = TokenType::kUnknown;
    } else if (pieces && text.size() == 6 && text.starts_with("<0x") && text.ends_with('>')) {
      type = TokenType::kByte;
    }
    to.tokens.push_back(std::move(text));
    to.types.push_back(type);
  }
}

void add_templates(const std::map<std::string, std::string>& templates, GgufMetadata& to) {
  std::vector<std::string> names;
  for (const auto& [name, source] : templates) {
    to.add_string(name.empty() ? "tokenizer.chat_template" : "tokenizer.chat_template." + name, source);
    if (!name.empty()) names.push_back(name);
  }
  if (!names.empty()) to.add_strings("tokenizer.chat_templates", names);
}

enum class Kind { kByteLevel, kPieces, kUnigram };

Result<Kind> kind_of(const json& document, const std::string& path) {
  const auto found = document.find("model");
  if (document.is_object() && found != document.end() && found->is_object()) {
    const json type = found->value("type", json("BPE"));
    if (type == "BPE") return found->value("byte_fallback", json(false)) == true ? Kind::kPieces : Kind::kByteLevel;
    if (type == "Unigram") return Kind::kUnigram;
    return fail(ErrorCode::kUnsupported, "{}: a {} vocabulary cannot be written as GGUF; BPE and Unigram can", path,
                type.dump().substr(0, 40));
  }
  return fail(ErrorCode::kCorruptFile, "{}/tokenizer.json has no \"model\"", path);
}

// Whether a text begins as after a space.
bool adds_space(const json& document) {
  for (const json& step : steps_of(document, "normalizer", "normalizers")) {
    if (step.is_object() && step.value("type", json("")) == "Prepend") return true;
  }
  for (const json& step : steps_of(document, "pre_tokenizer", "pretokenizers")) {
    if (!step.is_object() || step.value("type", json("")) != "Metaspace") continue;
    const json scheme = step.value("prepend_scheme", json());
    return scheme.is_string() ? scheme != "never" : step.value("add_prefix_space", json(true)) == true;
  }
  return false;
}

void read_unigram(const json& document, VocabData& to) {
  const json& model = document["model"];
  const json list = model.value("vocab", json::array());
  to.scores.assign(to.tokens.size(), kNeverMade);
  for (std::size_t id = 0; list.is_array() && id < std::min(list.size(), to.scores.size()); ++id) {
    if (list[id].is_array() && list[id].size() == 2 && list[id][1].is_number())
      to.scores[id] = list[id][1].get<float>();
  }
  const json unknown = model.value("unk_id", json());
  if (unknown.is_number_unsigned() && unknown.get<std::uint64_t>() < to.tokens.size()) {
    to.unknown = unknown.get<TokenId>();
    to.types[static_cast<std::size_t>(*to.unknown)] = TokenType::kUnknown;
  }
  to.remove_extra_whitespaces = false;
  for (const json& step : steps_of(document, "normalizer", "normalizers")) {
    if (!step.is_object()) continue;
    const json type = step.value("type", json("")), map = step.value("precompiled_charsmap", json());
    if (type == "Replace") to.remove_extra_whitespaces = true;  // several spaces by one, as SentencePiece's are written
    if (type == "Precompiled" && map.is_string()) to.charsmap = text::bytes_of_base64(map.get<std::string>());
  }
}

// Tokens that begin a text and end a reply. Of several that end one, GGUF names three.
void read_special(const text::Tokenizer& tokenizer, const load::GenerationDefaults& generation, VocabData& to) {
  const auto known = [&](std::optional<TokenId> id) {
    return id && *id >= 0 && static_cast<std::size_t>(*id) < to.tokens.size();
  };
  if (known(tokenizer.bos())) to.bos = tokenizer.bos();
  std::vector<TokenId> ends = generation.eos_ids;
  if (tokenizer.eos()) {
    std::erase(ends, *tokenizer.eos());
    ends.insert(ends.begin(), *tokenizer.eos());
  }
  std::erase_if(ends, [&](TokenId id) { return !known(id); });
  if (!ends.empty()) to.eos = ends[0];
  if (ends.size() > 1) to.eot = ends[1];
  if (ends.size() > 2) to.eom = ends[2];
  const auto around = tokenizer.encode("", {.add_special = true});
  to.add_bos = to.bos && !around.empty() && around.front() == *to.bos;
  to.add_eos = to.eos && around.size() > (*to.add_bos ? 1 : 0) && around.back() == *to.eos;
}

// What two tokenizers must agree on to be the same one: what splitting rules differ in, and texts of the tokens.
constexpr std::size_t kPlainTexts = 8;
std::vector<std::string> probes(const text::Tokenizer& tokenizer) {
  std::vector<std::string> texts = {
      "Hello, world! It's what we'LL say: I'd've known they're HERE.",
      "3 12 123 1234 12345 3.1415 1,000,000 x2y33z \u0967\u0968\u0969\u0967\u0968 \u2167",
      " one  two   three    \n\n  four\t\tfive \r\n six \n",
      "snake_case camelCase HTTPServer XMLHttpRequest iPhone /usr/bin/../lib [a-z]+$ {\"k\": [1, 2]} <tag a='b'/>",
      "\u4f60\u597d\uff0c\u4e16\u754c\u3002123\u6f22\u5b57\u304b\u306a\u30ab\u30ca \ud55c\uad6d\uc5b4",
      "\u0928\u092e\u0938\u094d\u0924\u0947 \u05e2\u05b4\u05d1\u05b0\u05e8\u05b4\u05d9\u05ea "
      "\u0e19\u0e49\u0e33 e\u0301 \u00e9 \u212b",
      "\U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f600!!! \u2026\u2014\u201cquoted\u201d \u00a0\u3000 "
      "\u0e01 fin",
      "Na\u00efve \u00c9COLE stra\u00dfe \u0421\u041b\u041e\u0412\u041e \u0441\u043b\u043e\u0432\u043e "
      "\u03a3\u03af\u03c3\u03c5\u03c6\u03bf\u03c2",
  };
  CHECK(texts.size() == kPlainTexts, "{}", texts.size());
  constexpr int kTokenTexts = 500;
  const int step = std::max(1, tokenizer.vocab_size() / kTokenTexts);
  std::string joined;
  for (TokenId id = 0; id < tokenizer.vocab_size(); id += step) {
    const std::string text = tokenizer.decode(std::array{id}, /*skip_special=*/true);
    texts.push_back("a " + text);
    joined += text;
  }
  texts.push_back(std::move(joined));
  return texts;
}

// Whether others that read `vocab` tokenise as the tokenizer does.
bool agree(const text::Tokenizer& tokenizer, const VocabData& vocab, std::span<const std::string> texts) {
  const auto other = text::Tokenizer::from_vocab(vocab);
  return other && std::ranges::all_of(texts, [&](const std::string& text) {
           return tokenizer.encode(text, {}) == (*other)->encode(text, {});
         });
}

// The same splitting of text with a vocabulary that shows where it splits, whatever the model's own joins: all pairs of
// bytes that are neighbours in the texts.
struct PairVocabulary {
  std::unique_ptr<text::Tokenizer> tokenizer;
  VocabData data;
};

Result<PairVocabulary> pair_vocabulary(json document, std::span<const std::string> texts) {
  VocabData data;
  data.model = "gpt2";
  json ids = json::object();
  const auto add = [&](const std::string& token) {
    const bool is_new = ids.emplace(token, data.tokens.size()).second;
    if (is_new) data.tokens.push_back(token);
    return is_new;
  };
  const auto spelt = [](char byte) { return text::bytes_to_chars(std::string_view(&byte, 1)); };
  for (int byte = 0; byte < 256; ++byte) add(spelt(static_cast<char>(byte)));
  for (const std::string& text : texts) {
    for (std::size_t i = 0; i + 1 < text.size(); ++i) {
      const std::string left = spelt(text[i]), right = spelt(text[i + 1]);
      if (add(left + right)) data.merges.push_back(left + " " + right);
    }
  }
  document["model"] = {{"type", "BPE"}, {"vocab", ids}, {"merges", data.merges}};
  document["added_tokens"] = json::array();
  document["post_processor"] = nullptr;
  PairVocabulary result;
  WEIR_TRY(result.tokenizer, text::Tokenizer::from_json(document.dump(), {}));
  result.data = std::move(data);
  return result;
}

// The name of its splitting rules, by trying all that there are.
bool find_rules(const text::Tokenizer& tokenizer, const json& document, VocabData& vocab) {
  const std::vector<std::string> texts = probes(tokenizer);
  vocab.pre = "default";
  if (vocab.model != "gpt2") return agree(tokenizer, vocab, texts);
  auto pairs = pair_vocabulary(document, std::span(texts).first(kPlainTexts));
  if (!pairs) return false;
  for (const std::string_view name : text::pre_names()) {
    vocab.pre = pairs->data.pre = name;
    if (agree(*pairs->tokenizer, pairs->data, std::span(texts).first(kPlainTexts)) && agree(tokenizer, vocab, texts))
      return true;
  }
  vocab.pre = "default";
  return false;
}

void write_keys(const VocabData& vocab, GgufMetadata& to) {
  const auto key = [](std::string_view name) { return fmt::format("tokenizer.ggml.{}", name); };
  to.add_string(key("model"), vocab.model);
  to.add_string(key("pre"), vocab.pre);
  to.add_strings(key("tokens"), vocab.tokens);
  if (!vocab.scores.empty()) to.add_f32s(key("scores"), vocab.scores);
  std::vector<std::int32_t> types;
  for (const TokenType type : vocab.types) types.push_back(static_cast<std::int32_t>(type));
  to.add_i32s(key("token_type"), types);
  if (!vocab.merges.empty()) to.add_strings(key("merges"), vocab.merges);
  const std::pair<const char*, std::optional<TokenId>> ids[] = {
      {"bos", vocab.bos}, {"eos", vocab.eos}, {"eot", vocab.eot}, {"eom", vocab.eom}, {"unknown", vocab.unknown}};
  for (const auto& [name, id] : ids) {
    if (id) to.add_u32(key(fmt::format("{}_token_id", name)), static_cast<std::uint32_t>(*id));
  }
  const std::pair<const char*, std::optional<bool>> flags[] = {
      {"add_bos_token", vocab.add_bos},
      {"add_eos_token", vocab.add_eos},
      {"add_space_prefix", vocab.add_space_prefix},
      {"remove_extra_whitespaces", vocab.remove_extra_whitespaces}};
  for (const auto& [name, flag] : flags) {
    if (flag) to.add_bool(key(name), *flag);
  }
  if (!vocab.charsmap.empty()) to.add_u8s(key("precompiled_charsmap"), std::as_bytes(std::span(vocab.charsmap)));
}

void add_sampling(const load::GenerationDefaults& generation, GgufMetadata& to) {
  if (generation.temperature) to.add_f32("general.sampling.temp", *generation.temperature);
  if (generation.top_p) to.add_f32("general.sampling.top_p", *generation.top_p);
  if (generation.top_k) to.add_i32("general.sampling.top_k", *generation.top_k);
  if (generation.repetition_penalty) to.add_f32("general.sampling.penalty_repeat", *generation.repetition_penalty);
}

Status add_originals(const load::ModelFiles& files, GgufMetadata& to) {
  to.add_string("tokenizer.huggingface.json", files.tokenizer_json);
  if (files.tokenizer_config_json.empty()) return {};
  WEIR_TRY(json config, load::parse_json(files.tokenizer_config_json, files.path + "/tokenizer_config.json"));
  if (config.is_object()) config.erase("chat_template");  // it has keys of its own
  to.add_string("tokenizer.huggingface.config", config.dump());
  return {};
}

}  // namespace

Result<std::string> add_vocabulary(const load::ModelFiles& files, const std::string& architecture, GgufMetadata& to) {
  const int vocab = files.spec.vocab;
  if (files.tokenizer_json.empty()) {
    return fail(ErrorCode::kUnsupported,
                "{}: a folder without tokenizer.json cannot be written as GGUF yet; save its tokenizer as one",
                files.path);
  }
  WEIR_TRY(const json document, load::parse_json(files.tokenizer_json, files.path + "/tokenizer.json"));
  WEIR_TRY(const auto tokenizer, text::Tokenizer::from_json(files.tokenizer_json, files.tokenizer_config_json));
  WEIR_TRY(const Kind kind, kind_of(document, files.path));
  VocabData data;
  data.architecture = architecture;
  data.model = kind == Kind::kByteLevel ? "gpt2" : kind == Kind::kPieces ? "llama" : "t5";
  read_tokens(*tokenizer, document, vocab, kind != Kind::kByteLevel, data);
  if (kind == Kind::kUnigram) {
    read_unigram(document, data);
  } else {
    data.merges = merges_of(document["model"]);
    if (kind == Kind::kPieces) data.scores = scores_of(data.tokens, data.merges);
    if (kind == Kind::kPieces) data.merges.clear();  // scores say the same
  }
  if (kind != Kind::kByteLevel) data.add_space_prefix = adds_space(document);
  read_special(*tokenizer, files.generation, data);
  const bool alike = find_rules(*tokenizer, document, data);
  write_keys(data, to);
  add_sampling(files.generation, to);
  add_templates(files.chat_templates, to);
  WEIR_RETURN_IF_ERROR(add_originals(files, to));
  if (alike) return std::string();
  return std::string(
      "GGUF has no words for this tokenizer: weir reads its tokenizer.json, which is in the file; other programs may "
      "split text differently");
}

}  // namespace weir::quantise
