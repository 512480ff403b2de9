#include "text/detokenizer.h"

#include <gtest/gtest.h>

#include <random>

#include "text/tokenizer/byte_chars.h"

namespace weir::text {
namespace {

// One token per byte, id = byte, and a control token 256.
std::unique_ptr<Tokenizer> byte_tokenizer() {
  VocabData vocab;
  vocab.model = "gpt2";
  for (unsigned byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    vocab.tokens.push_back(bytes_to_chars({&c, 1}));
    vocab.types.push_back(TokenType::kNormal);
  }
  vocab.tokens.emplace_back("<end>");
  vocab.types.push_back(TokenType::kControl);
  return *Tokenizer::from_vocab(std::move(vocab));
}

std::vector<TokenId> ids_of(std::string_view bytes) {
  std::vector<TokenId> ids;
  for (const char c : bytes) ids.push_back(static_cast<unsigned char>(c));
  return ids;
}

TEST(SanitiseUtf8, ReplacesEveryMaximalIllFormedPartOnce) {
  EXPECT_EQ(sanitise_utf8("plain"), "plain");
  EXPECT_EQ(sanitise_utf8("\xC0\x80"), "\uFFFD\uFFFD");
  EXPECT_EQ(sanitise_utf8("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(sanitise_utf8("\xF4\x90\x80\x80"), "\uFFFD\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(sanitise_utf8("\xF0\x9F\x98x"), "\uFFFDx");
  EXPECT_EQ(sanitise_utf8("\xE6\xB0"), "\uFFFD");
  // The example of the Unicode standard, table 3-8.
  EXPECT_EQ(sanitise_utf8("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), "\uFFFD\uFFFD\uFFFD\uFFFD\x41");
}

TEST(Detokenizer, GivesWholeCharactersOnly) {
  const auto tokenizer = byte_tokenizer();
  Detokenizer detokenizer(*tokenizer, {}, true);
  std::vector<std::string> parts;
  for (const TokenId id : ids_of("a水😸")) parts.push_back(detokenizer.push(id));
  EXPECT_EQ(parts, (std::vector<std::string>{"a", "", "", "水", "", "", "", "😸"}));
  EXPECT_EQ(detokenizer.finish(), "");
}

TEST(Detokenizer, ShowsACharacterThatThePromptBegan) {
  const auto tokenizer = byte_tokenizer();
  Detokenizer detokenizer(*tokenizer, ids_of("x\xE6\xB0"), true);
  EXPECT_EQ(detokenizer.push(0xB4), "水");
}

TEST(Detokenizer, LeavesTheRestOfABrokenPromptCharacterToThePrompt) {
  const auto tokenizer = byte_tokenizer();
  Detokenizer detokenizer(*tokenizer, ids_of("x\xE6\xB0"), true);
  EXPECT_EQ(detokenizer.push('y'), "y");
  Detokenizer silent(*tokenizer, ids_of("x\xE6\xB0"), true);
  EXPECT_EQ(silent.finish(), "");
}

TEST(Detokenizer, FinishShowsWhatIsCutShort) {
  const auto tokenizer = byte_tokenizer();
  Detokenizer detokenizer(*tokenizer, {}, true);
  EXPECT_EQ(detokenizer.push(0xF0), "");
  EXPECT_EQ(detokenizer.push(0x9F), "");
  EXPECT_EQ(detokenizer.finish(), "\uFFFD");
  EXPECT_EQ(detokenizer.finish(), "");
}

TEST(Detokenizer, SkipsControlTokensOnlyWhenAsked) {
  const auto tokenizer = byte_tokenizer();
  EXPECT_EQ(Detokenizer(*tokenizer, {}, true).push(256), "");
  EXPECT_EQ(Detokenizer(*tokenizer, {}, false).push(256), "<end>");
}

TEST(Detokenizer, JoinsToWhatDecodeGivesForAnyBytes) {
  const auto tokenizer = byte_tokenizer();
  std::mt19937 rng(5);
  const std::vector<TokenId> pool = ids_of("a\x80\xBF\xC2\xE0\xA0\xE6\xB0\xB4\xED\x9F\xF0\x9F\x98\xB8\xF4\x8F\xFF");
  for (int i = 0; i < 20000; ++i) {
    std::vector<TokenId> ids;
    for (unsigned n = rng() % 12; n > 0; --n) ids.push_back(rng() % 16 == 0 ? 256 : pool[rng() % pool.size()]);
    Detokenizer detokenizer(*tokenizer, {}, true);
    std::string joined;
    for (const TokenId id : ids) {
      const std::string part = detokenizer.push(id);
      ASSERT_EQ(part, sanitise_utf8(part));
      joined += part;
    }
    joined += detokenizer.finish();
    ASSERT_EQ(joined, tokenizer->decode(ids, true));
  }
}

TEST(Detokenizer, TakesOffThePrefixSpaceOnlyAtTheStartOfAText) {
  VocabData vocab;
  vocab.model = "llama";
  vocab.tokens = {"<unk>", "<s>", "</s>", "▁a", "b"};
  vocab.scores = {0, 0, 0, -1, -2};
  vocab.types = {TokenType::kUnknown, TokenType::kControl, TokenType::kControl, TokenType::kNormal, TokenType::kNormal};
  const auto tokenizer = *Tokenizer::from_vocab(std::move(vocab));
  const std::vector<TokenId> bos{1}, text{1, 4};
  EXPECT_EQ(Detokenizer(*tokenizer, bos, true).push(3), "a");
  EXPECT_EQ(Detokenizer(*tokenizer, text, true).push(3), " a");
  EXPECT_EQ(tokenizer->decode(std::vector<TokenId>{1, 3, 3}, true), "a a");
}

}  // namespace
}  // namespace weir::text
