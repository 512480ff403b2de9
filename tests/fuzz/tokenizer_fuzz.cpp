// Arbitrary bytes as a vocabulary and a text: an error, or ids that exist, hold no control token that nobody asked for
// and detokenize in pieces as at once. Never a crash.
//
// Input: a vocabulary, and behind the first byte 0xFF (which neither JSON nor UTF-8 has) a text; without one, the
// vocabulary is the text too. A vocabulary that starts with '{' is a tokenizer.json, one that starts with a line end a
// SentencePiece model. Else: two bytes of choices, then one line per token (type byte, score byte, text); lines that
// start with 'm' are merges.
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <string_view>

#include "text/detokenizer.h"
#include "text/tokenizer.h"

namespace {

using weir::TokenId;
using weir::text::Detokenizer;
using weir::text::Tokenizer;
using weir::text::TokenType;
using weir::text::VocabData;

VocabData read_vocab(std::string_view bytes) {
  static constexpr const char* kPres[] = {"gpt-2",  "smollm", "llama-bpe", "qwen2",
                                          "qwen35", "gpt-4o", "tekken",    "deepseek-v3"};
  VocabData vocab;
  if (bytes.size() < 2) return vocab;
  const auto choice = static_cast<unsigned char>(bytes[0]), flags = static_cast<unsigned char>(bytes[1]);
  static constexpr const char* kModels[] = {"gpt2", "llama", "t5", "bert", "gemma4"};
  vocab.model = kModels[(choice >> 3) % std::size(kModels)];
  vocab.pre = kPres[choice % 8];
  vocab.add_bos = (flags & 1) != 0;
  vocab.add_space_prefix = (flags & 2) != 0;
  vocab.remove_extra_whitespaces = (flags & 4) != 0;
  if ((flags & 8) != 0) vocab.bos = flags >> 4;
  bytes.remove_prefix(2);
  while (!bytes.empty()) {
    const std::string_view line = bytes.substr(0, bytes.find('\n'));
    bytes.remove_prefix(std::min(bytes.size(), line.size() + 1));
    if (line.starts_with('m')) {
      vocab.merges.emplace_back(line.substr(1));
    } else if (line.size() >= 2) {
      vocab.types.push_back(static_cast<TokenType>(line[0] & 7));
      vocab.scores.push_back(static_cast<float>(line[1]));
      vocab.tokens.emplace_back(line.substr(2));
    }
  }
  return vocab;
}

void check_text(const Tokenizer& tokenizer, std::string_view text) {
  for (const bool parse : {false, true}) {
    const auto ids = tokenizer.encode(text, {.add_special = parse, .parse_special = parse});
    for (const TokenId id : ids) {
      if (id < 0 || id >= tokenizer.vocab_size()) std::abort();
    }
    const weir::text::ByteRange all{0, text.size()};
    tokenizer.encode(text, {.parse_special = true, .literal = {&all, 1}});
    for (const bool skip : {false, true}) {
      Detokenizer detokenizer(tokenizer, {}, skip);
      std::string joined;
      for (const TokenId id : ids) joined += detokenizer.push(id);
      joined += detokenizer.finish();
      if (joined != tokenizer.decode(ids, skip)) std::abort();
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::size_t cut = bytes.find('\xFF');
  const std::string_view file = bytes.substr(0, cut);
  const std::string_view text = cut == std::string_view::npos ? bytes : bytes.substr(cut + 1);
  const auto tokenizer = file.starts_with('{')    ? Tokenizer::from_json(file, "")
                         : file.starts_with('\n') ? Tokenizer::from_sentencepiece(file, "")
                                                  : Tokenizer::from_vocab(read_vocab(file));
  if (tokenizer) check_text(**tokenizer, text);
  return 0;
}
