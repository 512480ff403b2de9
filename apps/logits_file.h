// The file in which llama-perplexity (--save-all-logits) keeps what a model answered. Its layout, little-endian:
// "_logits_", then in 32 bits the context, the vocabulary and the number of chunks, the tokens of all chunks, and for
// every position of a chunk's second half the log-probabilities of the vocabulary in 16 bits: two floats (what a step
// of the numbers is worth, and the lowest log-probability), then the numbers, of an even count. What is more than 16
// nats below the best counts as 16 below.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "load/mapped_file.h"

namespace weir::apps {

class LogitsFile {
 public:
  static Result<std::unique_ptr<LogitsFile>> open(const std::string& path);

  std::int64_t context() const { return context_; }
  std::int64_t vocab() const { return vocab_; }
  // Of all chunks, `context` each; ids of the vocabulary.
  const std::vector<TokenId>& tokens() const { return tokens_; }
  // Log-probabilities of the scored token number `i` of the whole file; returns the lowest that the row could hold. Any
  // thread.
  float read(std::size_t i, std::span<float> out) const;

 private:
  std::unique_ptr<load::MappedFile> file_;
  std::int64_t context_ = 0, vocab_ = 0;
  std::vector<TokenId> tokens_;
  std::size_t rows_at_ = 0, row_bytes_ = 0, rows_ = 0;
};

}  // namespace weir::apps
