// Arithmetic over one row of logits, in loops that the compiler vectorises. Sums run in a fixed order (lanes, then
// chunks), so results depend on the row alone. Cost: a few passes over the row. Threads: any.
#pragma once

#include <cstddef>
#include <span>

namespace weir::sample {

constexpr std::size_t kChunk = 1024;  // entries whose sum is taken in F32

// The largest entry; NaN if the row holds one.
float row_max(std::span<const float> row);

// The first entry that equals `value`, which must be in the row.
std::size_t index_of(std::span<const float> row, float value);

// How many entries are larger than `value`.
std::size_t count_above(std::span<const float> row, float value);

// Sum of exp(entry - max), relative error about 1e-7. No entry may exceed max.
double sum_exp(std::span<const float> row, float max);

// Each entry becomes exp((entry - max) / temperature), or 0 where that is below `floor` (at least the smallest normal
// number).
void exp_row(std::span<float> row, float max, float temperature, float floor);

// Sum of the entries that are at least `least`, and their number.
struct Mass {
  double sum = 0;
  std::size_t count = 0;
};
Mass mass_from(std::span<const float> row, float least);

// Sum of at most kChunk entries, the way mass_from() takes it.
float chunk_sum(std::span<const float> chunk);

}  // namespace weir::sample
