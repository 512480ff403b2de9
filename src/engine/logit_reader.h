// LogitReader: somebody who reads a prompt's logits themselves, all of the vocabulary and not a few logprobs.
#pragma once

#include <cstdint>

#include "tensor/matrix.h"

namespace weir::backend {
class Backend;
}

namespace weir::engine {

class LogitReader {
 public:
  virtual ~LogitReader() = default;
  // Row i holds the logits of the prompt's token number `first` + i (counted from 0; they come from the tokens before
  // it). Pieces of a few MB, in order and without gaps, on the engine's thread, which goes on when this returns.
  // `backend` lends its threads (parallel_for).
  virtual void read(std::int64_t first, tensor::Matrix<const float> rows, backend::Backend& backend) = 0;
};

}  // namespace weir::engine
