#include "kv/kv_storage.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

namespace weir::kv {
namespace {

TEST(KvStorage, SlicesTileTheArena) {
  // 8 full and 9 windowed layers: two groups of 9 slots, one slot unused.
  const std::vector<int> windows = {8, 0, 8, 0, 8, 0, 8, 0, 8, 0, 8, 0, 8, 0, 8, 0, 8};
  std::vector<KvStream> streams;
  for (const int window : windows) streams.push_back({window, 2, 4, 4});
  const KvLayout layout = plan_layout(streams, tensor::DType::kF16, 4);
  constexpr std::int64_t kSlice = 2 * 2 * 4 * 4 * 2;
  constexpr std::uint32_t kBlocks = 3;
  std::vector<std::byte> arena(static_cast<std::size_t>(KvStorage::bytes(layout, kBlocks)));
  const KvStorage storage(layout, kBlocks, arena.data());

  // Within a group no two streams and no two blocks touch the same byte, and nothing lies outside the arena.
  for (std::size_t g = 0; g < layout.groups.size(); ++g) {
    std::vector<int> touched(arena.size(), 0);
    for (const int stream : layout.groups[g].streams) {
      const KvStorage::Slice slice = storage.stream(stream);
      for (std::uint32_t block = 0; block < kBlocks; ++block) {
        const std::int64_t begin = slice.base + block * slice.block_stride - arena.data();
        ASSERT_GE(begin, 0);
        ASSERT_LE(begin + kSlice, static_cast<std::int64_t>(arena.size()));
        for (std::int64_t i = 0; i < kSlice; ++i) ++touched[static_cast<std::size_t>(begin + i)];
        const auto whole = storage.block(BlockId{block});
        EXPECT_GE(slice.base + block * slice.block_stride, whole.data());
        EXPECT_LE(slice.base + block * slice.block_stride + kSlice, whole.data() + whole.size());
      }
    }
    for (const int times : touched) ASSERT_LE(times, 1);
  }
}

TEST(KvStorage, PoisonIsNaNAndStaysInItsBlock) {
  for (const auto dtype : {tensor::DType::kF32, tensor::DType::kF16, tensor::DType::kBF16}) {
    const std::vector<KvStream> streams(2, {0, 1, 8, 8});
    const KvLayout layout = plan_layout(streams, dtype, 2);
    std::vector<std::byte> arena(static_cast<std::size_t>(KvStorage::bytes(layout, 3)));
    const KvStorage storage(layout, 3, arena.data());
    storage.poison(BlockId{1});
    for (std::uint32_t block = 0; block < 3; ++block) {
      const auto bytes = storage.block(BlockId{block});
      const auto width = static_cast<std::size_t>(tensor::row_bytes(dtype, 1));
      for (std::size_t i = 0; i < bytes.size(); i += width) {
        float f = 0.0f;
        std::uint16_t h = 0;
        std::memcpy(&h, &bytes[i], 2);
        if (dtype == tensor::DType::kF32) std::memcpy(&f, &bytes[i], 4);
        // The exponent's bits are all ones and the fraction is not zero: NaN.
        if (dtype == tensor::DType::kF16) f = (h & 0x7c00) == 0x7c00 && (h & 0x03ff) ? NAN : 0.0f;
        if (dtype == tensor::DType::kBF16) f = (h & 0x7f80) == 0x7f80 && (h & 0x007f) ? NAN : 0.0f;
        ASSERT_EQ(std::isnan(f), block == 1);
      }
    }
  }
}

}  // namespace
}  // namespace weir::kv
