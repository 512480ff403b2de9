// quantise(): a model from a GGUF file or a Hugging Face folder into a GGUF file of another kind.
//
// Streaming: of the weights a few megabytes of rows are in memory at a time, widened to F32 as their format defines
// them, encoded on all threads and written. The output appears under its name when it is whole (gguf_writer.h).
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"

namespace weir::quantise {

struct QuantiseOptions {
  std::string in, out, kind;
  int threads = 0;  // 0: all cores
};

struct QuantiseSummary {
  std::int64_t tensors = 0, bytes_in = 0, bytes_out = 0;
  std::string note;  // what the reader of the file should know; may be empty
};

// `progress` hears of each tensor before it is written: its number from 1, how many there are, and its name.
Result<QuantiseSummary> quantise(const QuantiseOptions& options,
                                 const std::function<void(std::int64_t, std::int64_t, const std::string&)>& progress);

}  // namespace weir::quantise
