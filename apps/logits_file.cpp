#include "apps/logits_file.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"

namespace weir::apps {
namespace {

constexpr std::string_view kMagic = "_logits_";
constexpr std::size_t kHeadBytes = 20;
constexpr std::int32_t kMaxContext = 1 << 20, kMaxVocab = 1 << 22, kMaxChunks = 1 << 20;  // products fit 64 bits

template <class T>
T value_at(std::span<const std::byte> bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

}  // namespace

Result<std::unique_ptr<LogitsFile>> LogitsFile::open(const std::string& path) {
  auto logits = std::make_unique<LogitsFile>();
  WEIR_TRY(logits->file_, load::MappedFile::open(path));
  const std::span<const std::byte> bytes = logits->file_->bytes();
  if (bytes.size() < kHeadBytes || std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0)
    return fail(ErrorCode::kCorruptFile, "{}: not what llama-perplexity saves with --save-all-logits", path);
  const auto context = value_at<std::int32_t>(bytes, 8), vocab = value_at<std::int32_t>(bytes, 12),
             chunks = value_at<std::int32_t>(bytes, 16);
  if (context < 4 || context > kMaxContext || vocab < 1 || vocab > kMaxVocab || chunks < 1 || chunks > kMaxChunks)
    return fail(ErrorCode::kCorruptFile, "{}: claims {} chunks of {} tokens of a vocabulary of {}", path, chunks,
                context, vocab);
  const auto tokens = static_cast<std::size_t>(context) * static_cast<std::size_t>(chunks);
  logits->context_ = context;
  logits->vocab_ = vocab;
  logits->rows_ = static_cast<std::size_t>(context - 1 - context / 2) * static_cast<std::size_t>(chunks);
  logits->rows_at_ = kHeadBytes + tokens * sizeof(TokenId);
  logits->row_bytes_ = (2 * (static_cast<std::size_t>(vocab) / 2 + static_cast<std::size_t>(vocab) % 2) + 4) * 2;
  const std::size_t wanted = logits->rows_at_ + logits->rows_ * logits->row_bytes_;
  if (bytes.size() != wanted)
    return fail(ErrorCode::kCorruptFile, "{}: has {} bytes; {} chunks of {} tokens of a vocabulary of {} take {}", path,
                bytes.size(), chunks, context, vocab, wanted);
  logits->tokens_.resize(tokens);
  std::memcpy(logits->tokens_.data(), bytes.data() + kHeadBytes, tokens * sizeof(TokenId));
  const auto wrong = std::ranges::find_if(logits->tokens_, [&](TokenId id) { return id < 0 || id >= vocab; });
  if (wrong != logits->tokens_.end())
    return fail(ErrorCode::kCorruptFile, "{}: token {} is {}; the vocabulary has {}", path,
                wrong - logits->tokens_.begin(), *wrong, vocab);
  return logits;
}

float LogitsFile::read(std::size_t i, std::span<float> out) const {
  CHECK(i < rows_ && static_cast<std::int64_t>(out.size()) == vocab_, "row {} of {}", i, rows_);
  const auto row = file_->bytes().subspan(rows_at_ + i * row_bytes_, row_bytes_);
  const auto scale = value_at<float>(row, 0), lowest = value_at<float>(row, 4);
  for (std::size_t k = 0; k < out.size(); ++k)
    out[k] = lowest + scale * static_cast<float>(value_at<std::uint16_t>(row, 8 + 2 * k));
  return lowest;
}

}  // namespace weir::apps
