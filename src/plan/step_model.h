// StepModel: how long one forward pass takes. What the simulator, the search and the predictions of latency share.
#pragma once

#include <cstdint>

namespace weir::plan {

// One forward pass of one instance. Sums over the sequences in it, so that whoever plans steps keeps it as they go.
struct StepShape {
  std::int64_t sequences = 0;
  std::int64_t tokens = 0;         // rows computed, of prefill and decoding
  std::int64_t decode_tokens = 0;  // of them rows of sequences that compute one
  std::int64_t samples = 0;        // rows that need logits
  double attended = 0;             // pairs of query and key: sum over rows of the positions each sees
  double decode_attended = 0;      // of them those of decode rows
  double context_read = 0;         // KV entries read: sum over sequences of what the last row sees

  // One sequence computes tokens [begin, end).
  void add(std::int64_t begin, std::int64_t end, bool sampled) {
    const auto rows = end - begin;
    const double pairs = 0.5 * static_cast<double>(rows) * static_cast<double>(begin + 1 + end);
    sequences += 1;
    tokens += rows;
    samples += sampled ? 1 : 0;
    attended += pairs;
    context_read += static_cast<double>(end);
    if (rows == 1) {
      decode_tokens += 1;
      decode_attended += pairs;
    }
  }
};

class StepModel {
 public:
  virtual ~StepModel() = default;
  virtual double step_s(const StepShape& shape) const = 0;  // seconds from the scheduler's plan to the tokens
};

}  // namespace weir::plan
