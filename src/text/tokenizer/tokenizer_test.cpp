// What holds for any vocabulary: round trips, literal ranges, framing, refusal of broken vocabularies, time on long
// texts.
#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "text/tokenizer/byte_chars.h"
#include "text/tokenizer/unicode.h"

namespace weir::text {
namespace {

using nlohmann::json;

// Byte-level: 256 bytes, a few merges, one token of each special kind.
VocabData byte_vocab() {
  VocabData vocab;
  vocab.model = "gpt2";
  vocab.pre = "gpt-2";
  for (unsigned byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    vocab.tokens.push_back(bytes_to_chars({&c, 1}));
  }
  for (const char* merge : {"a a", "aa aa", "a b", "Ġ a", "t h", "th e", "Ġ the"}) {
    vocab.merges.emplace_back(merge);
    std::string joined = merge;
    joined.erase(joined.find(' '), 1);
    vocab.tokens.push_back(joined);
  }
  vocab.types.assign(vocab.tokens.size(), TokenType::kNormal);
  const auto add = [&](const char* text, TokenType type) {
    vocab.tokens.emplace_back(text);
    vocab.types.push_back(type);
    return static_cast<TokenId>(vocab.tokens.size() - 1);
  };
  vocab.bos = add("<s>", TokenType::kControl);
  vocab.eos = add("</s>", TokenType::kControl);
  add("<|im_start|>", TokenType::kControl);
  vocab.eot = add("<|im_end|>", TokenType::kControl);
  add("<tool>", TokenType::kUserDefined);
  return vocab;
}

VocabData spm_vocab() {
  VocabData vocab;
  vocab.model = "llama";
  const auto add = [&](const std::string& text, float score, TokenType type) {
    vocab.tokens.push_back(text);
    vocab.scores.push_back(score);
    vocab.types.push_back(type);
  };
  add("<unk>", 0, TokenType::kUnknown);
  add("<s>", 0, TokenType::kControl);
  add("</s>", 0, TokenType::kControl);
  for (int byte = 0; byte < 256; ++byte) add(fmt::format("<0x{:02X}>", byte), 0, TokenType::kByte);
  float score = -1;
  for (const char* piece : {"ab", "▁a", "abab", "▁", "a", "b", "c", "▁▁"}) add(piece, score--, TokenType::kNormal);
  add("<tool>", 0, TokenType::kUserDefined);
  return vocab;
}

std::unique_ptr<Tokenizer> make(VocabData vocab) {
  auto tokenizer = Tokenizer::from_vocab(std::move(vocab));
  EXPECT_TRUE(tokenizer) << tokenizer.error().message;
  return *std::move(tokenizer);
}

std::string random_text(std::mt19937& rng, bool valid) {
  static const char* const kPieces[] = {" ",    "a",   "the",  "\n",         "é",      "水",       "😀",
                                        "▁",    "<s>", "</s>", "<|im_end|>", "<tool>", "\xF0\x9F", "\xFF",
                                        "\xE6", "'s",  "12",   "\0x",        "e\u0301"};
  std::string text;
  const auto length = rng() % 20;
  for (unsigned i = 0; i < length; ++i) text += kPieces[rng() % std::size(kPieces)];
  if (valid) {
    std::string kept;
    for (std::size_t at = 0; at < text.size();) {
      const Char c = char_at(text, at);
      if (c.code != kInvalidChar) kept += text.substr(at, c.size);
      at += c.size;
    }
    return kept;
  }
  return text;
}

std::string joined_bytes(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  std::string bytes;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    bytes += i == 0 ? tokenizer.first_token_bytes(ids[i], false) : tokenizer.token_bytes(ids[i], false);
  }
  return bytes;
}

TEST(Tokenizer, ByteLevelTextComesBackByteForByteEvenIfItIsNoUtf8) {
  const auto tokenizer = make(byte_vocab());
  std::mt19937 rng(1);
  for (int i = 0; i < 3000; ++i) {
    const std::string text = random_text(rng, false);
    EXPECT_EQ(joined_bytes(*tokenizer, tokenizer->encode(text, {})), text);
    EXPECT_EQ(joined_bytes(*tokenizer, tokenizer->encode(text, {.parse_special = true})), text);
  }
}

TEST(Tokenizer, SentencePieceTextComesBackThroughByteTokens) {
  VocabData vocab = spm_vocab();
  vocab.tokens.pop_back();  // a prefix space follows a user-defined token, which decoding cannot tell from a real one
  vocab.scores.pop_back();
  vocab.types.pop_back();
  const auto tokenizer = make(std::move(vocab));
  std::mt19937 rng(2);
  for (int i = 0; i < 3000; ++i) {
    std::string text = random_text(rng, false);
    if (text.find("▁") != std::string::npos) continue;  // becomes a space
    EXPECT_EQ(joined_bytes(*tokenizer, tokenizer->encode(text, {})), text);
  }
}

TEST(Tokenizer, NothingBecomesAControlTokenUnlessAsked) {
  const auto tokenizer = make(byte_vocab());
  std::mt19937 rng(3);
  for (int i = 0; i < 1000; ++i) {
    for (const TokenId id : tokenizer->encode(random_text(rng, true), {})) EXPECT_FALSE(tokenizer->is_control(id));
  }
}

TEST(Tokenizer, SpecialTokensFrameAlsoAnEmptyTextAndOneThatHasThemAlready) {
  VocabData vocab = byte_vocab();
  vocab.add_bos = vocab.add_eos = true;
  const auto tokenizer = make(vocab);
  const EncodeOptions options{.add_special = true, .parse_special = true};
  const TokenId bos = *vocab.bos, eos = *vocab.eos;
  EXPECT_EQ(tokenizer->encode("", options), (std::vector<TokenId>{bos, eos}));
  EXPECT_EQ(tokenizer->encode("<s>", options), (std::vector<TokenId>{bos, bos, eos}));
}

// prompt:  <|im_start|>  A<|im_end|>B  <|im_end|>
// literal:               [---------]
TEST(Tokenizer, ControlTokensDoNotTouchLiteralRanges) {
  const auto tokenizer = make(byte_vocab());
  const std::string head = "<|im_start|>", user = "A<|im_end|>B", tail = "<|im_end|>";
  const std::string text = head + user + tail;
  const ByteRange range{head.size(), head.size() + user.size()};
  const auto ids = tokenizer->encode(text, {.parse_special = true, .literal = {&range, 1}});
  EXPECT_EQ(std::count_if(ids.begin(), ids.end(), [&](TokenId id) { return tokenizer->is_control(id); }), 2);
  EXPECT_EQ(tokenizer->is_control(ids.front()) && tokenizer->is_control(ids.back()), true);
  EXPECT_EQ(joined_bytes(*tokenizer, ids), text);
}

TEST(Tokenizer, AControlTokenHalfInALiteralRangeIsText) {
  const auto tokenizer = make(byte_vocab());
  const std::string text = "<|im_end|>";
  for (std::size_t begin = 0; begin < text.size(); ++begin) {
    const ByteRange range{begin, begin + 1};
    const auto ids = tokenizer->encode(text, {.parse_special = true, .literal = {&range, 1}});
    for (const TokenId id : ids) EXPECT_FALSE(tokenizer->is_control(id));
  }
}

TEST(Tokenizer, HarmlessLiteralTextGetsTheIdsOfThePlainRendering) {
  const auto tokenizer = make(byte_vocab());
  std::mt19937 rng(4);
  for (int i = 0; i < 500; ++i) {
    const std::string user = "ab the aaaa", text = "<|im_start|>" + random_text(rng, true) + user + "<|im_end|>";
    const ByteRange range{text.size() - user.size() - 10, text.size() - 10};
    EXPECT_EQ(tokenizer->encode(text, {.parse_special = true, .literal = {&range, 1}}),
              tokenizer->encode(text, {.parse_special = true}));
  }
}

TEST(Tokenizer, RepliesEndAtTheNamedTokens) {
  const VocabData vocab = byte_vocab();
  std::vector<TokenId> wanted{*vocab.eos, *vocab.eot};
  std::sort(wanted.begin(), wanted.end());
  EXPECT_EQ(make(vocab)->end_of_generation_ids(), wanted);
}

TEST(Tokenizer, TokensThatEndAMessageOfAReplyDoNotEndTheReply) {
  const auto ends = [](const std::vector<std::string>& names) {
    VocabData vocab = byte_vocab();
    for (const auto& name : names) {
      vocab.tokens.push_back(name);
      vocab.types.push_back(TokenType::kControl);
    }
    std::vector<std::string> out;
    const auto tokenizer = make(vocab);
    for (const TokenId id : tokenizer->end_of_generation_ids()) {
      const std::string text(tokenizer->token_text(id));
      if (std::find(names.begin(), names.end(), text) != names.end()) out.push_back(text);
    }
    return out;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(ends({"<|end|>"}), (Names{"<|end|>"}));
  EXPECT_EQ(ends({"<|end|>", "<|return|>", "<|call|>"}), (Names{"<|return|>", "<|call|>"}));
  EXPECT_EQ(ends({"<|end|>", "<|flush|>", "<|calls|>"}), (Names{"<|flush|>", "<|calls|>"}));
  EXPECT_EQ(ends({"<|eom|>"}), (Names{"<|eom|>"}));
  EXPECT_EQ(ends({"<|eom|>", "<|eot|>", "<|start|>", "<|message|>"}), (Names{"<|eot|>"}));
}

TEST(Tokenizer, SentencePieceMergesByScoreThenFromTheLeft) {
  const auto tokenizer = make(spm_vocab());
  const auto texts = [&](std::string_view text) {
    std::string out;
    for (const TokenId id : tokenizer->encode(text, {})) out.append(tokenizer->token_text(id)).append("|");
    return out;
  };
  EXPECT_EQ(texts("ababab"), "▁|abab|ab|");
  EXPECT_EQ(texts("a"), "▁a|");
  EXPECT_EQ(texts(" c"), "▁▁|c|");
  EXPECT_EQ(texts("\n"), "▁|<0x0A>|");
  EXPECT_EQ(texts(""), "");
}

TEST(Tokenizer, UnusedPiecesArePassedThroughButTakenApart) {
  VocabData vocab = spm_vocab();
  vocab.add_space_prefix = false;
  const auto ab =
      static_cast<std::size_t>(std::find(vocab.tokens.begin(), vocab.tokens.end(), "ab") - vocab.tokens.begin());
  vocab.types[ab] = TokenType::kUnused;
  const auto tokenizer = make(vocab);
  const auto id = [&](const char* text) { return *tokenizer->id_of(text); };
  EXPECT_EQ(tokenizer->encode("ababab", {}), (std::vector<TokenId>{id("abab"), id("a"), id("b")}));
}

void expect_refused(VocabData vocab, std::string_view what) {
  const auto tokenizer = Tokenizer::from_vocab(std::move(vocab));
  ASSERT_FALSE(tokenizer) << what;
  EXPECT_NE(tokenizer.error().message.find(what), std::string::npos) << tokenizer.error().message;
}

TEST(Tokenizer, BrokenVocabulariesAreRefusedWithTheReason) {
  VocabData vocab = spm_vocab();
  vocab.tokens.clear();
  expect_refused(vocab, "empty");
  vocab = spm_vocab();
  vocab.scores.pop_back();
  expect_refused(vocab, "scores has");
  vocab = spm_vocab();
  vocab.types.pop_back();
  expect_refused(vocab, "token_type has");
  vocab = spm_vocab();
  vocab.tokens[7] = "<0xZZ>";
  expect_refused(vocab, "byte");
  vocab = spm_vocab();
  vocab.tokens[7] = "<0x-1>";
  expect_refused(vocab, "byte");
  vocab = spm_vocab();
  vocab.tokens[260].clear();
  expect_refused(vocab, "empty string");
  vocab = spm_vocab();
  vocab.scores[260] = std::nanf("");
  expect_refused(vocab, "not a number");
  vocab = spm_vocab();
  vocab.bos = static_cast<TokenId>(vocab.tokens.size());
  expect_refused(vocab, "bos_token_id");
  vocab = spm_vocab();
  vocab.eos = -1;
  expect_refused(vocab, "eos_token_id");
  vocab = byte_vocab();
  vocab.merges.emplace_back("nospace");
  expect_refused(vocab, "no space");
  vocab = byte_vocab();
  vocab.merges.emplace_back("z z");
  expect_refused(vocab, "not among");
  vocab = byte_vocab();
  vocab.pre = "no-such-rules";
  expect_refused(vocab, "no-such-rules");
  vocab = byte_vocab();
  vocab.model = "no-such-model";
  expect_refused(vocab, "no-such-model");
}

TEST(Tokenizer, BrokenJsonIsRefusedWithTheReason) {
  const auto refused = [](const std::string& text, std::string_view what) {
    const auto tokenizer = Tokenizer::from_json(text, "");
    ASSERT_FALSE(tokenizer) << text.substr(0, 80);
    EXPECT_NE(tokenizer.error().message.find(what), std::string::npos) << tokenizer.error().message;
  };
  refused("", "JSON");
  refused("[]", "not a JSON object");
  refused("{", "JSON");
  refused(std::string(100000, '['), "levels");
  refused(R"({"model": {"type": "Babble", "vocab": {"a": 0}}})", "Babble");
  refused(R"({"model": {"type": "Unigram", "vocab": []}})", "no tokens");
  refused(R"({"model": {"type": "Unigram", "vocab": [["a"]]}})", "without a score");
  refused(R"({"model": {"type": "Unigram", "vocab": [["a", 0]], "unk_id": 1}})", "unk_id");
  refused(R"({"model": {"type": "Unigram", "vocab": {"a": 0}}})", "list of scores");
  refused(R"({"model": {"type": "WordPiece", "vocab": {"a": 0}, "unk_token": "b"}})", "\"b\"");
  refused(R"({"model": {"type": "BPE", "vocab": {}, "merges": []}})", "no tokens");
  refused(R"({"model": {"type": "BPE", "vocab": {"a": -1}, "merges": []}})", "id -1");
  refused(R"({"model": {"type": "BPE", "vocab": {"a": 99999999999}, "merges": []}})", "id 99999999999");
  refused(R"({"model": {"type": "BPE", "vocab": {"a": "b"}, "merges": []}})", "wrong kind");
  refused(R"({"model": {"type": "BPE", "vocab": {"a": 3, "b": 3}, "merges": []}})", R"("a" and "b")");
  refused(R"({"added_tokens": [{"id": 0, "content": "<s>"}], "model": {"vocab": {"a": 0}, "merges": []}})",
          "same id 0");
  refused(R"({"added_tokens": [{"id": 1, "content": ""}], "model": {"vocab": {"a": 0}, "merges": []}})",
          "added token 1");
  refused(R"({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": ["aa"]}})", "without a space");
  refused(R"({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": [["a", "b"]]}})", "lacks");
  refused(R"({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": [["a"]]}})", "two parts");
  refused(R"({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}, "pre_tokenizer": {"type": "Mystery"}})",
          "Mystery");
  refused(R"({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []},
              "pre_tokenizer": {"type": "Split", "pattern": {"Regex": "("}, "behavior": "Isolated"}})",
          "does not compile");
  refused(R"({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []},
              "post_processor": {"type": "BertProcessing", "cls": ["a", 5], "sep": ["a", 0]}})",
          "token 5");
}

TEST(Tokenizer, TokenizerConfigNamesBosAndEos) {
  const std::string file = R"({"added_tokens": [{"id": 1, "content": "<s>", "special": true}],
                               "model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}})";
  const auto tokenizer =
      Tokenizer::from_json(file, R"({"bos_token": {"content": "<s>"}, "eos_token": "a", "add_bos_token": true})");
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  EXPECT_EQ((*tokenizer)->bos(), 1);
  EXPECT_EQ((*tokenizer)->eos(), 0);
  EXPECT_EQ((*tokenizer)->encode("a", {.add_special = true}), (std::vector<TokenId>{1, 0}));
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const auto byte = [&](std::size_t at) { return at < bytes.size() ? static_cast<unsigned char>(bytes[at]) : 0U; };
    const unsigned bits = byte(i) << 16 | byte(i + 1) << 8 | byte(i + 2);
    for (std::size_t k = 0; k < 4; ++k) out += i + k > bytes.size() ? '=' : kDigits[bits >> (18 - 6 * k) & 63];
  }
  return out;
}

// All bytes, then some words.
std::vector<std::string> ranked_tokens() {
  std::vector<std::string> tokens;
  for (unsigned byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  for (const char* word : {"th", "he", "the", " the", "ab", "xy"}) tokens.emplace_back(word);
  return tokens;
}

void expect_merged_by_rank(const Tokenizer& tokenizer, TokenId first) {
  const auto id = [&](std::string_view text) { return *tokenizer.id_of(bytes_to_chars(text)); };
  EXPECT_EQ(id("th"), first + 256);
  EXPECT_EQ(tokenizer.encode("the the", {}), (std::vector<TokenId>{id("the"), id(" the")}));
  EXPECT_EQ(tokenizer.encode("xthe", {}), (std::vector<TokenId>{id("x"), id("the")}));
  EXPECT_EQ(tokenizer.encode("xhe", {}), (std::vector<TokenId>{id("x"), id("he")}));
  EXPECT_EQ(tokenizer.encode("\xFF", {}), (std::vector<TokenId>{id("\xFF")}));
  EXPECT_EQ(tokenizer.encode("ab<s>", {.add_special = true, .parse_special = true}),
            (std::vector<TokenId>{*tokenizer.bos(), id("ab"), *tokenizer.bos()}));
}

TEST(Tokenizer, TekkenFilesMergeByRank) {
  json file = json::parse(R"({"config": {"default_num_special_tokens": 4, "default_vocab_size": 265},
                              "special_tokens": [{"rank": 0, "token_str": "<unk>"}, {"rank": 1, "token_str": "<s>"},
                                                 {"rank": 2, "token_str": "</s>"}]})");
  file["config"]["pattern"] = " ?\\p{L}+|\\s+|[^\\s\\p{L}]+";
  std::size_t rank = 0;
  for (const std::string& token : ranked_tokens()) {
    file["vocab"].push_back({{"rank", rank++}, {"token_bytes", base64(token)}, {"token_str", nullptr}});
  }
  const auto tokenizer = Tokenizer::from_tekken(file.dump());
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  expect_merged_by_rank(**tokenizer, 4);
  EXPECT_EQ((*tokenizer)->vocab_size(), 265);  // "xy" is beyond the size that the file states
  EXPECT_FALSE((*tokenizer)->id_of("xy"));
  EXPECT_EQ((*tokenizer)->token_text(3), "<SPECIAL_3>");
  EXPECT_EQ((*tokenizer)->eos(), 2);
}

TEST(Tokenizer, TiktokenFilesMergeByRank) {
  std::string ranks;
  std::size_t rank = 0;
  for (const std::string& token : ranked_tokens()) ranks += base64(token) + " " + std::to_string(rank++) + "\n";
  const std::string config = R"({"added_tokens_decoder": {"300": {"content": "<s>", "special": true},
                                                          "301": {"content": "<tool>", "special": false}},
                                 "bos_token": "<s>", "add_bos_token": true, "tokenizer_class": "TikTokenTokenizer"})";
  const auto tokenizer = Tokenizer::from_tiktoken(ranks, config);
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  expect_merged_by_rank(**tokenizer, 0);
  EXPECT_EQ((*tokenizer)->encode("<tool>", {}), (std::vector<TokenId>{301}));
  EXPECT_FALSE(Tokenizer::from_tiktoken("YQ== x\n", ""));
  EXPECT_FALSE(Tokenizer::from_tiktoken("YQ== 99999999\n", ""));
  EXPECT_FALSE(Tokenizer::from_tiktoken("", ""));
}

// The ids of tokenizers 0.23.3.
TEST(Tokenizer, AnAddedTokenInWhiteSpaceThatAnotherTookMayBeNothing) {
  const auto tokenizer = Tokenizer::from_json(
      R"({"model": {"type": "WordLevel", "vocab": {"a": 0, "<unk>": 1}, "unk_token": "<unk>"},
          "pre_tokenizer": {"type": "WhitespaceSplit"}, "added_tokens": [
            {"id": 2, "content": "[X]", "rstrip": true, "lstrip": false, "single_word": false, "normalized": false,
             "special": false},
            {"id": 3, "content": "\n\n", "rstrip": false, "lstrip": true, "single_word": false, "normalized": false,
             "special": false}]})",
      "");
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  using Ids = std::vector<TokenId>;
  EXPECT_EQ((*tokenizer)->encode("[X]\n\na", {}), (Ids{2, 0}));
  EXPECT_EQ((*tokenizer)->encode("[X] \n\na", {}), (Ids{2, 0}));
  EXPECT_EQ((*tokenizer)->encode("a\n\n[X]", {}), (Ids{0, 3, 2}));
  EXPECT_EQ((*tokenizer)->encode("a \n\n a", {}), (Ids{0, 3, 0}));
}

TEST(Tokenizer, BrokenSentencePieceModelsAreRefused) {
  for (const std::string_view model :
       {"\x0A\xFF\xFF\xFF\xFF\x0F", "\x0A\x05\x0A\x01", "\x0B", "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF", "",
        "\x0A\x04\x18\x07\x0A\x00", "\x12\x02\x18\x03"}) {
    EXPECT_FALSE(Tokenizer::from_sentencepiece(model, ""));
  }
}

TEST(Tokenizer, LongTextsTakeLinearTime) {
  constexpr int kRepeats = 131072;
  for (const VocabData& vocab : {byte_vocab(), spm_vocab()}) {
    const auto tokenizer = make(vocab);
    for (const char* unit :
         {"a", "ab", "Z", " ", "\n", "1", "é", "\u0301", "水", "<|im_end|>", "<s>", "'s", " \n", "\xFF", "aB"}) {
      std::string text;
      for (int i = 0; i < kRepeats; ++i) text += unit;
      tokenizer->encode(text, {.parse_special = true});  // a quadratic step runs into the test's time limit
    }
  }
}

}  // namespace
}  // namespace weir::text
