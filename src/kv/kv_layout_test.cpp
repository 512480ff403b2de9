#include "kv/kv_layout.h"

#include <gtest/gtest.h>

namespace weir::kv {
namespace {

using tensor::DType;

TEST(KvLayout, OneKindIsOneGroup) {
  const std::vector<int> windows(30, 0);
  const KvLayout layout = plan_layout(windows, 3, 64, DType::kF16, 16);
  ASSERT_EQ(layout.groups.size(), 1u);
  EXPECT_EQ(layout.layer_slots, 30);
  EXPECT_EQ(layout.slot_bytes(), 2 * 3 * 16 * 64 * 2);
  EXPECT_EQ(layout.block_bytes(), 30 * layout.slot_bytes());
  EXPECT_DOUBLE_EQ(layout.bytes_per_token(), 30.0 * 2 * 3 * 64 * 2);
  EXPECT_EQ(layout.place[17].group, 0);
  EXPECT_EQ(layout.place[17].slot, 17);
}

// Gemma 3 270M: every sixth layer sees everything.
TEST(KvLayout, MixedWindowsShareOneBlockSize) {
  std::vector<int> windows;
  for (int layer = 0; layer < 18; ++layer) windows.push_back(layer % 6 == 5 ? 0 : 512);
  const KvLayout layout = plan_layout(windows, 1, 256, DType::kF32, 16);
  ASSERT_EQ(layout.groups.size(), 6u);
  EXPECT_EQ(layout.layer_slots, 3);
  int full = 0;
  for (const KvGroup& group : layout.groups) {
    EXPECT_EQ(group.layers.size(), 3u);
    full += group.window == 0;
  }
  EXPECT_EQ(full, 1);
  EXPECT_DOUBLE_EQ(layout.bytes_per_token(), 3.0 * 2 * 256 * 4);
}

// Every layer has exactly one place, places do not collide, groups are of one kind, and no kind loses more than an
// eighth.
TEST(KvLayout, EveryLayerHasItsOwnPlace) {
  for (int layers = 1; layers <= 70; ++layers) {
    for (const int period : {1, 2, 3, 4, 5, 6, 7, 13}) {
      std::vector<int> windows;
      int kind[2] = {0, 0};
      for (int layer = 0; layer < layers; ++layer) {
        windows.push_back(layer % period == 0 ? 0 : 128);
        ++kind[windows.back() == 0];
      }
      const KvLayout layout = plan_layout(windows, 2, 8, DType::kF32, 4);
      ASSERT_EQ(layout.place.size(), windows.size());
      int slots[2] = {0, 0};
      for (std::size_t g = 0; g < layout.groups.size(); ++g) {
        const KvGroup& group = layout.groups[g];
        ASSERT_LE(static_cast<int>(group.layers.size()), layout.layer_slots);
        slots[group.window == 0] += layout.layer_slots;
        for (std::size_t slot = 0; slot < group.layers.size(); ++slot) {
          const auto layer = static_cast<std::size_t>(group.layers[slot]);
          EXPECT_EQ(windows[layer], group.window);
          EXPECT_EQ(layout.place[layer].group, static_cast<int>(g));
          EXPECT_EQ(layout.place[layer].slot, static_cast<int>(slot));
        }
      }
      for (const int k : {0, 1}) EXPECT_LE((slots[k] - kind[k]) * 8, kind[k]) << layers << " layers, period " << period;
    }
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
