// Tokenizer::from_sentencepiece: SentencePiece's tokenizer.model (a protobuf
// message, sentencepiece_model.proto) -> VocabData, which GGUF files state the
// same way.
#include <bit>
#include <cstdint>
#include <utility>

#include "text/tokenizer.h"
#include "text/tokenizer/json_parts.h"
#include "text/tokenizer/limits.h"
#include "text/tokenizer/rank_vocab.h"

namespace weir::text {
namespace {

tl::unexpected<Error> broken(const char* what) {
  return fail(ErrorCode::kCorruptFile, "the SentencePiece model cannot be read: {}", what);
}

// The fields of one protobuf message, in order.
class Message {
 public:
  struct Field {
    std::uint64_t number = 0;
    std::uint64_t value = 0;      // of a varint or a fixed number
    std::string_view bytes = {};  // of a string or message
  };

  explicit Message(std::string_view bytes) : left_(bytes) {}
  bool done() const { return left_.empty(); }

  Result<Field> next() {
    WEIR_TRY(const std::uint64_t key, varint());
    Field field{.number = key >> 3};
    std::size_t size = 0;
    switch (key & 7) {
      case 0: {
        WEIR_TRY(field.value, varint());
        return field;
      }
      case 1:
      case 5:
        size = (key & 7) == 1 ? 8 : 4;
        break;
      case 2: {
        WEIR_TRY(const std::uint64_t length, varint());
        if (length > left_.size()) return broken("a field is longer than the file");
        size = static_cast<std::size_t>(length);
        break;
      }
      default:
        return broken("a field has an unknown kind");
    }
    if (size > left_.size()) return broken("a field is longer than the file");
    field.bytes = left_.substr(0, size);
    if ((key & 7) != 2) {
      for (std::size_t i = 0; i < size; ++i)
        field.value |= std::uint64_t{static_cast<unsigned char>(field.bytes[i])} << 8 * i;
    }
    left_.remove_prefix(size);
    return field;
  }

 private:
  Result<std::uint64_t> varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && !left_.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(left_.front());
      left_.remove_prefix(1);
      value |= std::uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return value;
    }
    return broken("a number does not end");
  }

  std::string_view left_;
};

Status read_piece(std::string_view bytes, VocabData& vocab) {
  if (vocab.tokens.size() >= kMaxTokens) return broken("it has more pieces than weir allows");
  std::string text;
  float score = 0;
  std::uint64_t type = 1;
  for (Message piece(bytes); !piece.done();) {
    WEIR_TRY(const auto field, piece.next());
    if (field.number == 1) text = field.bytes;
    if (field.number == 2) score = std::bit_cast<float>(static_cast<std::uint32_t>(field.value));
    if (field.number == 3) type = field.value;
  }
  if (type < 1 || type > 6) return broken("a piece has an unknown type");
  vocab.tokens.push_back(std::move(text));
  vocab.scores.push_back(score);
  vocab.types.push_back(static_cast<TokenType>(type));
  return {};
}

Status read_trainer(std::string_view bytes, VocabData& vocab) {
  std::uint64_t kind = 1;
  const auto id = [](std::uint64_t value) {
    const auto number = static_cast<std::int32_t>(value);
    return number < 0 ? std::optional<TokenId>() : std::optional<TokenId>(number);
  };
  for (Message trainer(bytes); !trainer.done();) {
    WEIR_TRY(const auto field, trainer.next());
    if (field.number == 3) kind = field.value;
    if (field.number == 40) vocab.unknown = id(field.value);
    if (field.number == 41) vocab.bos = id(field.value);
    if (field.number == 42) vocab.eos = id(field.value);
  }
  if (kind != 1 && kind != 2) {
    return fail(ErrorCode::kUnsupported,
                "the SentencePiece model has type {}; weir knows 1 (Unigram) "
                "and 2 (BPE)",
                kind);
  }
  vocab.model = kind == 1 ? "t5" : "llama";
  return {};
}

Status read_normalizer(std::string_view bytes, VocabData& vocab) {
  for (Message normalizer(bytes); !normalizer.done();) {
    WEIR_TRY(const auto field, normalizer.next());
    if (field.number == 2) vocab.charsmap = field.bytes;
    if (field.number == 3) vocab.add_space_prefix = field.value != 0;
    if (field.number == 4) vocab.remove_extra_whitespaces = field.value != 0;
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> Tokenizer::from_sentencepiece(std::string_view model,
                                                                 std::string_view tokenizer_config) {
  VocabData vocab;
  vocab.model = "t5";
  vocab.unknown = 0;
  vocab.bos = 1;
  vocab.eos = 2;
  vocab.add_space_prefix = vocab.remove_extra_whitespaces = true;
  for (Message message(model); !message.done();) {
    WEIR_TRY(const auto field, message.next());
    if (field.number == 1) WEIR_RETURN_IF_ERROR(read_piece(field.bytes, vocab));
    if (field.number == 2) WEIR_RETURN_IF_ERROR(read_trainer(field.bytes, vocab));
    if (field.number == 3) WEIR_RETURN_IF_ERROR(read_normalizer(field.bytes, vocab));
  }
  WEIR_TRY(const nlohmann::json config, read_tokenizer_config(tokenizer_config));
  WEIR_TRY(const auto added, configured_tokens(config));
  for (const ConfiguredToken& token : added) {
    const auto id = static_cast<std::size_t>(token.id);
    for (std::size_t gap = vocab.tokens.size(); gap <= id; ++gap) {
      vocab.tokens.push_back(fmt::format("[UNUSED_{}]", gap));
      vocab.scores.push_back(0);
      vocab.types.push_back(TokenType::kUnused);
    }
    vocab.tokens[id] = token.content;
    if (vocab.types[id] != TokenType::kUnknown) {
      vocab.types[id] = token.special ? TokenType::kControl : TokenType::kUserDefined;
    }
  }
  const bool unigram = vocab.model == "t5";
  vocab.add_bos = json_flag(config, "add_bos_token", !unigram);
  vocab.add_eos = json_flag(config, "add_eos_token", unigram);
  return from_vocab(std::move(vocab));
}

}  // namespace weir::text
