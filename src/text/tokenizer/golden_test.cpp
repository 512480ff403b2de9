// Ids equal the libraries' own: tests/golden/tokenizers/*.json, written by tools/gen_tokenizer_tests.py.
// WEIR_GOLDEN_TOKENIZERS names another folder, for a larger run of the generator with another seed.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "text/detokenizer.h"
#include "text/tokenizer.h"
#include "text/tokenizer/byte_chars.h"
#include "text/tokenizer/byte_token.h"

namespace weir::text {
namespace {

using nlohmann::json;

std::string golden_folder() {
  const char* other = std::getenv("WEIR_GOLDEN_TOKENIZERS");
  return other != nullptr ? other : WEIR_SOURCE_DIR "/tests/golden/tokenizers";
}

std::vector<std::string> golden_files() {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(golden_folder())) {
    if (entry.path().extension() == ".json") names.insert(entry.path().stem());
  }
  return {names.begin(), names.end()};
}

json read_golden(const std::string& name) {
  std::ifstream file(golden_folder() + "/" + name + ".json");
  return json::parse(file);
}

VocabData sentencepiece_vocab(const json& spec) {
  VocabData vocab;
  vocab.model = spec["model"];
  vocab.tokens = spec["tokens"].get<std::vector<std::string>>();
  vocab.scores = spec["scores"].get<std::vector<float>>();
  for (const int type : spec["types"]) vocab.types.push_back(static_cast<TokenType>(type));
  vocab.bos = spec["bos"].get<TokenId>();
  vocab.eos = spec["eos"].get<TokenId>();
  vocab.unknown = spec["unknown"].get<TokenId>();
  vocab.add_bos = spec["add_bos"].get<bool>();
  vocab.add_space_prefix = spec["add_space_prefix"].get<bool>();
  if (spec.contains("charsmap")) {
    vocab.add_eos = spec["add_eos"].get<bool>();
    vocab.remove_extra_whitespaces = spec["remove_extra_whitespaces"].get<bool>();
    for (const int byte : spec["charsmap"]) vocab.charsmap.push_back(static_cast<char>(byte));
  }
  return vocab;
}

// The vocabulary of a byte-level tokenizer.json as a converter to GGUF writes it.
VocabData byte_level_vocab(const json& tokenizer, const std::string& pre) {
  VocabData vocab;
  vocab.model = "gpt2";
  vocab.pre = pre;
  const json& entries = tokenizer["model"]["vocab"];
  vocab.tokens.resize(entries.size());
  vocab.types.assign(entries.size(), TokenType::kNormal);
  for (const auto& [text, id] : entries.items()) vocab.tokens[id.get<std::size_t>()] = text;
  for (const json& merge : tokenizer["model"]["merges"]) {
    vocab.merges.push_back(merge[0].get<std::string>() + " " + merge[1].get<std::string>());
  }
  for (const json& added : tokenizer["added_tokens"]) {
    vocab.types[added["id"].get<std::size_t>()] =
        added["special"].get<bool>() ? TokenType::kControl : TokenType::kUserDefined;
  }
  vocab.bos = 0;
  vocab.eos = 1;
  vocab.add_bos = vocab.add_eos = true;
  return vocab;
}

std::string shown(const json& value) {
  return value.dump(-1, ' ', true);
}

void expect_cases(const Tokenizer& tokenizer, const json& cases) {
  int shown_failures = 0;
  for (const json& c : cases) {
    const std::string text = c[0];
    const EncodeOptions options{.add_special = c[1].get<bool>(), .parse_special = c[2].get<bool>()};
    const auto ids = tokenizer.encode(text, options);
    const auto wanted = c[3].get<std::vector<TokenId>>();
    EXPECT_EQ(ids, wanted) << shown(c);
    if (c[4].is_string()) {
      EXPECT_EQ(tokenizer.decode(wanted, false), c[4].get<std::string>()) << shown(c);
    }
    if (ids != wanted && ++shown_failures == 5) break;
  }
}

class Golden : public ::testing::TestWithParam<std::string> {};

TEST_P(Golden, GivesTheIdsOfTheModelsOwnLibrary) {
  const json golden = read_golden(GetParam());
  const auto tokenizer = golden.contains("vocab") ? Tokenizer::from_vocab(sentencepiece_vocab(golden["vocab"]))
                                                  : Tokenizer::from_json(golden["tokenizer"].dump(), "");
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  expect_cases(**tokenizer, golden["cases"]);
}

TEST_P(Golden, GivesTheSameIdsFromGguf) {
  const json golden = read_golden(GetParam());
  if (!golden.contains("pre") || !golden["pre"].is_string()) GTEST_SKIP() << "no GGUF form";
  const auto tokenizer = Tokenizer::from_vocab(byte_level_vocab(golden["tokenizer"], golden["pre"]));
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  expect_cases(**tokenizer, golden["cases"]);
}

TEST_P(Golden, GivesTheSameIdsFromATokenizerModel) {
  const json golden = read_golden(GetParam());
  if (!golden.contains("model")) GTEST_SKIP() << "not of SentencePiece";
  const std::string model = bytes_of_base64(golden["model"].get<std::string>());
  const auto tokenizer = Tokenizer::from_sentencepiece(model, R"({"add_bos_token": true, "add_eos_token": false})");
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  expect_cases(**tokenizer, golden["cases"]);
}

TEST_P(Golden, DetokenizesTheSameInPiecesAsAtOnce) {
  const json golden = read_golden(GetParam());
  const auto tokenizer = golden.contains("vocab") ? Tokenizer::from_vocab(sentencepiece_vocab(golden["vocab"]))
                                                  : Tokenizer::from_json(golden["tokenizer"].dump(), "");
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  for (const json& c : golden["cases"]) {
    const auto ids = c[3].get<std::vector<TokenId>>();
    for (const bool skip : {false, true}) {
      const std::string whole = (*tokenizer)->decode(ids, skip);
      Detokenizer all(**tokenizer, {}, skip);
      std::string joined;
      for (const TokenId id : ids) {
        const std::string part = all.push(id);
        EXPECT_EQ(part, sanitise_utf8(part));
        joined += part;
      }
      EXPECT_EQ(joined + all.finish(), whole) << shown(c);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Files, Golden, ::testing::ValuesIn(golden_files()), [](const auto& info) {
  std::string name = info.param;
  for (char& c : name) {
    if (c == '-') c = '_';
  }
  return name;
});

}  // namespace
}  // namespace weir::text
