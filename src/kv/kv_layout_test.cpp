#include "kv/kv_layout.h"

#include <gtest/gtest.h>

namespace weir::kv {
namespace {

using tensor::DType;

// A model whose layers differ only in their windows.
std::vector<KvStream> alike(std::span<const int> windows, int heads, int dim) {
  std::vector<KvStream> streams;
  for (const int window : windows) streams.push_back({window, heads, dim, dim});
  return streams;
}

TEST(KvLayout, OneKindIsOneGroup) {
  const std::vector<int> windows(30, 0);
  const KvLayout layout = plan_layout(alike(windows, 3, 64), DType::kF16, 16);
  ASSERT_EQ(layout.groups.size(), 1u);
  constexpr std::int64_t kSlice = 2 * 3 * 16 * 64 * 2;
  EXPECT_EQ(layout.block_bytes, 30 * kSlice);
  EXPECT_DOUBLE_EQ(layout.bytes_per_token(), 30.0 * 2 * 3 * 64 * 2);
  EXPECT_EQ(layout.place[17].group, 0);
  EXPECT_EQ(layout.place[17].offset, 17 * kSlice);
}

// Gemma 3 270M: every sixth layer sees everything.
TEST(KvLayout, MixedWindowsShareOneBlockSize) {
  std::vector<int> windows;
  for (int layer = 0; layer < 18; ++layer) windows.push_back(layer % 6 == 5 ? 0 : 512);
  const KvLayout layout = plan_layout(alike(windows, 1, 256), DType::kF32, 16);
  ASSERT_EQ(layout.groups.size(), 6u);
  int full = 0;
  for (const KvGroup& group : layout.groups) {
    EXPECT_EQ(group.streams.size(), 3u);
    full += group.window == 0;
  }
  EXPECT_EQ(full, 1);
  EXPECT_DOUBLE_EQ(layout.bytes_per_token(), 3.0 * 2 * 256 * 4);
}

std::int64_t slice_bytes(const KvStream& stream, const KvLayout& layout) {
  return std::int64_t{stream.heads} * layout.block_tokens *
         (tensor::row_bytes(layout.dtype, stream.key_dim) + tensor::row_bytes(layout.dtype, stream.value_dim));
}

// Every stream has exactly one place, places in a group do not overlap and lie in the block, groups are of one window.
void check_places(const std::vector<KvStream>& streams, const KvLayout& layout) {
  ASSERT_EQ(layout.place.size(), streams.size());
  std::size_t placed = 0;
  for (std::size_t g = 0; g < layout.groups.size(); ++g) {
    std::int64_t end = 0;
    for (const int index : layout.groups[g].streams) {
      const auto i = static_cast<std::size_t>(index);
      ++placed;
      EXPECT_EQ(streams[i].window, layout.groups[g].window);
      EXPECT_EQ(layout.place[i].group, static_cast<int>(g));
      EXPECT_GE(layout.place[i].offset, end);
      end = layout.place[i].offset + slice_bytes(streams[i], layout);
    }
    EXPECT_LE(end, layout.block_bytes);
  }
  EXPECT_EQ(placed, streams.size());
}

// No kind of layers loses more than an eighth where they all are of one size.
TEST(KvLayout, EveryLayerHasItsOwnPlace) {
  for (int layers = 1; layers <= 70; ++layers) {
    for (const int period : {1, 2, 3, 4, 5, 6, 7, 13}) {
      std::vector<int> windows;
      std::int64_t kind[2] = {0, 0}, held[2] = {0, 0};
      for (int layer = 0; layer < layers; ++layer) {
        windows.push_back(layer % period == 0 ? 0 : 128);
        ++kind[windows.back() == 0];
      }
      const auto streams = alike(windows, 2, 8);
      const KvLayout layout = plan_layout(streams, DType::kF32, 4);
      check_places(streams, layout);
      const std::int64_t slice = slice_bytes(streams[0], layout);
      for (const KvGroup& group : layout.groups) held[group.window == 0] += layout.block_bytes / slice;
      for (const int k : {0, 1}) EXPECT_LE((held[k] - kind[k]) * 8, kind[k]) << layers << " layers, period " << period;
    }
  }
}

// EXAONE 4: 24 windowed layers and 8 full ones make four groups of 8, not of 9 with one unused.
TEST(KvLayout, BlocksAreNoLargerThanTheirGroupsNeed) {
  std::vector<int> windows;
  for (int layer = 0; layer < 32; ++layer) windows.push_back(layer % 4 == 3 ? 0 : 4096);
  const KvLayout layout = plan_layout(alike(windows, 2, 8), DType::kF16, 16);
  EXPECT_EQ(layout.groups.size(), 4u);
  EXPECT_EQ(layout.block_bytes, 8 * 2 * 16 * (16 + 16));
}

// DeepSeek V3: 61 layers that keep a latent of 512 and a key of 64, 576 elements in all.
TEST(KvLayout, LatentsTakeNoMoreThanTheyNeed) {
  const std::vector<KvStream> streams(61, {0, 1, 576, 0});
  const KvLayout layout = plan_layout(streams, DType::kF16, 16);
  check_places(streams, layout);
  EXPECT_DOUBLE_EQ(layout.bytes_per_token(), 576.0 * 61 * 2);
}

// Llama 3.3 70B: 320 KiB per token.
TEST(KvLayout, Llama70B) {
  const std::vector<KvStream> streams(80, {0, 8, 128, 128});
  EXPECT_DOUBLE_EQ(plan_layout(streams, DType::kBF16, 16).bytes_per_token(), 320.0 * 1024);
}

TEST(KvLayout, StateTakesWholeBlocks) {
  const std::vector<KvStream> streams(2, {0, 2, 8, 8});
  const KvLayout layout = plan_layout(streams, DType::kF32, 4, 2 * 1024 + 1);
  EXPECT_EQ(layout.block_bytes, 1024);
  EXPECT_EQ(layout.state_blocks, 3);
  EXPECT_EQ(layout.blocks_needed(0, 1), 0u);
  EXPECT_EQ(layout.blocks_needed(5, 1), 5u);
}

// DeepSeek V3.2 keeps an indexer's key of 128 in every layer too, in groups of their own.
TEST(KvLayout, StreamsOfDifferentSizesShareOneBlockSize) {
  for (const int layers : {1, 2, 3, 7, 61}) {
    std::vector<KvStream> streams;
    for (int i = 0; i < layers; ++i) {
      streams.push_back({0, 1, 576, 0});
      streams.push_back({0, 1, 128, 0});
    }
    const KvLayout layout = plan_layout(streams, DType::kF16, 16);
    check_places(streams, layout);
    for (const KvGroup& group : layout.groups) {
      for (const int index : group.streams) EXPECT_EQ(index % 2, group.streams.front() % 2);
    }
    // One layer's key alone cannot fill a block that a latent fits.
    const double needed = layers * (576.0 + 128.0) * 2;
    EXPECT_LE(layout.bytes_per_token(), needed * (layers < 7 ? 2.0 : 1.25)) << layers;
  }
}

KvLayout with_windows(std::initializer_list<int> windows, int block_tokens) {
  KvLayout layout;
  layout.block_tokens = block_tokens;
  for (const int window : windows) layout.groups.push_back({window, {}});
  return layout;
}

TEST(KvLayout, BlocksNeededByFullAttention) {
  const KvLayout layout = with_windows({0}, 16);
  EXPECT_EQ(layout.blocks_needed(0, 1), 0u);
  EXPECT_EQ(layout.blocks_needed(1, 1), 1u);
  EXPECT_EQ(layout.blocks_needed(16, 1), 1u);
  EXPECT_EQ(layout.blocks_needed(17, 2048), 2u);
  EXPECT_EQ(with_windows({0, 0, 0}, 16).blocks_needed(17, 1), 6u);
  EXPECT_EQ(with_windows({0, 0}, 1).blocks_needed(std::int64_t{1} << 40, 1), ~std::uint32_t{0}) << "saturates";
}

// Against the definition: walk through the text with steps of every size up to the limit and count what is held.
TEST(KvLayout, BlocksNeededByWindowsIsTheLeastUpperBound) {
  for (const int block_tokens : {1, 2, 3, 4, 16}) {
    for (const int window : {1, 2, 3, 4, 7, 16, 33}) {
      for (const std::int64_t step : {1, 2, 3, 5, 16, 50}) {
        const std::int64_t tokens = 200;
        std::int64_t most = 0;
        for (std::int64_t computed = 0; computed < tokens; ++computed) {
          const std::int64_t end = std::min(tokens, computed + step);
          const std::int64_t first = std::max<std::int64_t>(0, computed - window + 1) / block_tokens;
          most = std::max(most, (end + block_tokens - 1) / block_tokens - first);
        }
        EXPECT_EQ(with_windows({window}, block_tokens).blocks_needed(tokens, step), most)
            << "block " << block_tokens << " window " << window << " step " << step;
      }
    }
  }
}

}  // namespace
}  // namespace weir::kv
