// A weight matrix in panels of 16 outputs (layout: kernels.h), about the size of the file's form, and the only copy.
#pragma once

#include <span>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/linear/foreign_blocks.h"
#include "backend/cpu/linear/kernels.h"
#include "backend/cpu/memory.h"
#include "base/thread_pool.h"

namespace weir::backend::cpu::linear {

class PackedWeight : public LinearWeight {
 public:
  // `data` holds `rows` rows in the file's layout. Each worker packs the panels it will read (share()). `consumed`: see
  // Backend::pack.
  PackedWeight(ThreadPool& pool, DType dtype, std::int64_t rows, std::int64_t cols, std::span<const std::byte> data,
               const std::function<void(std::span<const std::byte>)>& consumed);

  Format format() const { return format_; }
  std::int64_t panels() const { return panels_; }
  std::int64_t blocks() const { return blocks_; }  // of 32 inputs; quantised formats
  const std::uint8_t* panel(std::int64_t index) const {
    return reinterpret_cast<const std::uint8_t*>(memory_.data()) + index * panel_bytes_;
  }
  std::int64_t panel_bytes() const { return panel_bytes_; }
  std::int64_t codes_at() const { return codes_at_; }  // offset of the codes (after the scales) in a panel
  // Bytes of a panel's codes (or floats), and of its scales, for 32 inputs.
  std::int64_t block_bytes() const { return block_bytes_; }
  std::int64_t block_scale_bytes() const { return block_scale_bytes_; }
  int group_shift() const { return group_shift_; }  // of formats with groups: 2^group_shift blocks each
  const std::uint8_t* table() const { return table_.empty() ? nullptr : table_.data(); }

  // One row as the file defines it, times `scale`.
  void dequantise_row(std::int64_t row, float scale, float* out) const;

 private:
  int common_group_shift(ThreadPool& pool, std::span<const std::byte> data) const;
  void measure(ThreadPool& pool, std::span<const std::byte> data);
  void pack_panel(std::int64_t index, const std::byte* data);

  Format format_;
  const ForeignType* foreign_;  // null: the file's type has kernels of its own
  std::vector<std::uint8_t> table_;
  int group_shift_ = 0;
  std::int64_t panels_ = 0, blocks_ = 0, panel_bytes_ = 0, codes_at_ = 0;
  std::int64_t block_bytes_ = 0, block_scale_bytes_ = 0;
  Memory memory_;
};

inline const PackedWeight& packed(const LinearWeight& weight) {
  return static_cast<const PackedWeight&>(weight);
}

struct Range {
  std::int64_t begin, end;
};

// Worker w's part of `count` things: the same split for packing and for reading.
inline Range share(std::int64_t count, int worker, int workers) {
  return {count * worker / workers, count * (worker + 1) / workers};
}

inline bool is_quantised(Format format) {
  return format >= kQ4_0;
}

inline bool has_min(Format format) {
  const Scales scales = kForm[format].scales;
  return scales == kHalfMin || scales == kSuperMin || scales == kSuper2 || scales == kGroup;
}

}  // namespace weir::backend::cpu::linear
