#include "api/reply_text.h"

#include <gtest/gtest.h>

#include <random>

#include "api/testing.h"

namespace weir::api {
namespace {

using testing::ByteTokenizer;

const std::vector<TokenId> kEosIds = {ByteTokenizer::kEos};

EncodedPrompt prompt_of(const ByteTokenizer& tokenizer, std::vector<TokenId> ids) {
  text::Detokenizer after(tokenizer, ids, true);
  return {std::move(ids), std::move(after), {}};
}

std::vector<TokenId> bytes(std::string_view text) {
  std::vector<TokenId> ids;
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  return ids;
}

// Feeds the tokens in steps of random size; the last one ends with `finish`. Returns the parts.
std::vector<ReplyPart> feed(ReplyText& text, const std::vector<TokenId>& tokens, engine::FinishReason finish,
                            std::mt19937& random) {
  std::vector<ReplyPart> parts;
  std::size_t at = 0;
  do {
    engine::SequenceOutput output;
    const std::size_t n = std::min<std::size_t>(1 + random() % 3, tokens.size() - at);
    for (std::size_t i = 0; i < n; ++i) {
      output.tokens.push_back(tokens[at + i]);
      output.logprobs.push_back({{tokens[at + i], -1.0f, 1}, {}});
    }
    at += n;
    if (at == tokens.size()) {
      output.finish = finish;
      if (finish == engine::FinishReason::kStop) output.stop_token = tokens.back();
    }
    parts.push_back(text.take(std::move(output)));
  } while (at < tokens.size() && !text.finished());
  return parts;
}

ReplyPart whole(std::vector<ReplyPart> parts) {
  ReplyPart out;
  for (auto& part : parts) out.append(std::move(part));
  return out;
}

TEST(ReplyText, stop_strings_cut_the_text_wherever_they_fall_and_nothing_of_them_is_shown) {
  const ByteTokenizer tokenizer;
  std::mt19937 random(2);
  for (int round = 0; round < 2000; ++round) {
    const std::vector<std::string> alphabet = {"a", "b", "é", "😀"};
    const auto word = [&](unsigned n) {
      std::string out;
      for (unsigned i = 0; i < n; ++i) out += alphabet[random() % alphabet.size()];
      return out;
    };
    const std::string full = word(12);
    GenerationRequest request;
    request.stop = {word(1 + random() % 3), word(1 + random() % 4)};
    request.logprobs = 0;
    request.include_stop = random() % 2 == 0;
    const StopMatcher stops(request.stop);
    const auto prompt = prompt_of(tokenizer, {1});
    ReplyText text(request, kEosIds, prompt, &stops);
    const auto parts = feed(text, bytes(full), engine::FinishReason::kLength, random);

    // Every token is a byte: the first string to be complete ends the text; of two that end together, the one that
    // began first.
    std::size_t begin = full.size(), end = full.size() + 1;
    for (const auto& stop : request.stop) {
      const auto at = full.find(stop);
      if (at != std::string::npos && std::pair(at + stop.size(), at) < std::pair(end, begin)) {
        begin = at;
        end = at + stop.size();
      }
    }
    const bool hit = end <= full.size();
    end = std::min(end, full.size());
    const std::string want = full.substr(0, request.include_stop ? end : begin);
    std::string seen;
    for (const auto& part : parts) {
      seen += part.text;
      ASSERT_TRUE(want.starts_with(seen)) << full << " shown " << seen << " want " << want;
    }
    ASSERT_EQ(seen, want) << full;
    ASSERT_EQ(parts.back().finish->reason, hit ? "stop" : "length");
    ASSERT_EQ(static_cast<std::size_t>(text.completion_tokens()), hit ? end : full.size());
  }
}

TEST(ReplyText, tokens_join_to_the_text_where_characters_span_several) {
  const ByteTokenizer tokenizer;
  std::mt19937 random(3);
  for (const std::string full : {"naïve 你好 😀 x", "\xf0\x9f\x98", "a\xff b\xe4\xbd", "", "😀"}) {
    for (int round = 0; round < 20; ++round) {
      GenerationRequest request;
      request.logprobs = 1;
      const auto prompt = prompt_of(tokenizer, {1});
      ReplyText text(request, kEosIds, prompt, nullptr);
      auto parts = feed(text, bytes(full), engine::FinishReason::kLength, random);
      for (const auto& part : parts) EXPECT_EQ(text::sanitise_utf8(part.text), part.text);
      const auto all = whole(std::move(parts));
      EXPECT_EQ(all.text, text::sanitise_utf8(full));
      std::string joined;
      std::int64_t characters = 0;
      for (const auto& entry : all.entries) {
        EXPECT_EQ(entry.text_offset, characters);
        joined += entry.piece;
        for (const char c : entry.piece) characters += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
      }
      EXPECT_EQ(joined, all.text);
    }
  }
}

TEST(ReplyText, the_token_that_ends_the_reply_is_not_text) {
  const ByteTokenizer tokenizer;
  std::mt19937 random(4);
  for (const bool skip : {true, false}) {
    GenerationRequest request;
    request.skip_special_tokens = skip;
    const auto prompt = prompt_of(tokenizer, {1});
    ReplyText text(request, kEosIds, prompt, nullptr);
    const auto all =
        whole(feed(text, {ByteTokenizer::kHello, ByteTokenizer::kEos}, engine::FinishReason::kStop, random));
    EXPECT_EQ(all.text, "Hello");
    EXPECT_EQ(all.tokens.size(), 2u);
    EXPECT_EQ(all.finish->reason, "stop");
    EXPECT_TRUE(std::holds_alternative<std::monostate>(all.finish->stop_reason));
  }
  GenerationRequest request;
  request.sampling.stop_token_ids = {ByteTokenizer::kWorld};
  const auto prompt = prompt_of(tokenizer, {1});
  ReplyText text(request, kEosIds, prompt, nullptr);
  const auto all =
      whole(feed(text, {ByteTokenizer::kHello, ByteTokenizer::kWorld}, engine::FinishReason::kStop, random));
  EXPECT_EQ(all.text, "Hello");
  EXPECT_EQ(std::get<TokenId>(all.finish->stop_reason), ByteTokenizer::kWorld);
}

TEST(ReplyText, a_stop_string_before_min_tokens_does_not_count) {
  const ByteTokenizer tokenizer;
  std::mt19937 random(5);
  GenerationRequest request;
  request.stop = {"ab"};
  request.sampling.min_tokens = 3;
  const StopMatcher stops(request.stop);
  const auto prompt = prompt_of(tokenizer, {1});
  ReplyText text(request, kEosIds, prompt, &stops);
  const auto all = whole(feed(text, bytes("abxxabyy"), engine::FinishReason::kLength, random));
  EXPECT_EQ(all.text, "abxx");
  EXPECT_EQ(text.completion_tokens(), 6);
}

TEST(ReplyText, text_that_might_have_become_a_stop_string_is_shown_at_the_end) {
  const ByteTokenizer tokenizer;
  std::mt19937 random(6);
  for (const auto finish : {engine::FinishReason::kLength, engine::FinishReason::kStop}) {
    GenerationRequest request;
    request.stop = {"stop!"};
    const StopMatcher stops(request.stop);
    const auto prompt = prompt_of(tokenizer, {1});
    ReplyText text(request, kEosIds, prompt, &stops);
    auto tokens = bytes("do not stop");
    if (finish == engine::FinishReason::kStop) tokens.push_back(ByteTokenizer::kEos);
    EXPECT_EQ(whole(feed(text, tokens, finish, random)).text, "do not stop");
  }
}

}  // namespace
}  // namespace weir::api
