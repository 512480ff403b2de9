#include "kv/kv_layout.h"

#include <algorithm>
#include <limits>
#include <map>

#include "base/check.h"

namespace weir::kv {

namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return a / b + (a % b != 0);
}

// Layer slots per block: as many as every kind of layer can fill to within an eighth. More slots mean fewer groups,
// hence fewer tables and block names per sequence; unused slots are memory lost for good. One slot always qualifies.
int choose_layer_slots(const std::map<int, std::vector<int>>& kinds) {
  int most = 1;
  for (const auto& [window, layers] : kinds) most = std::max(most, static_cast<int>(layers.size()));
  for (int slots = most; slots > 1; --slots) {
    const bool fills = std::all_of(kinds.begin(), kinds.end(), [slots](const auto& kind) {
      const int layers = static_cast<int>(kind.second.size());
      const int unused = (layers + slots - 1) / slots * slots - layers;
      return unused * 8 <= layers;
    });
    if (fills) return slots;
  }
  return 1;
}

}  // namespace

std::int64_t KvLayout::slot_bytes() const {
  return std::int64_t{2} * heads * block_tokens * tensor::row_bytes(dtype, head_dim);
}

double KvLayout::bytes_per_token() const {
  const auto full = std::count_if(groups.begin(), groups.end(), [](const KvGroup& group) { return group.window == 0; });
  return static_cast<double>(full) * static_cast<double>(block_bytes()) / block_tokens;
}

std::uint32_t KvLayout::blocks_needed(std::int64_t tokens, std::int64_t step_tokens) const {
  CHECK(tokens >= 0 && step_tokens >= 1, "{} tokens, {} per step", tokens, step_tokens);
  constexpr std::int64_t kMost = std::numeric_limits<std::uint32_t>::max();
  std::int64_t sum = 0;
  for (const KvGroup& group : groups) {
    std::int64_t blocks = ceil_div(tokens, block_tokens);
    if (group.window > 0 && step_tokens < tokens) {
      // n tokens in a row touch at most ceil((n - 1) / block_tokens) + 1 blocks, wherever they start.
      blocks = std::min(blocks, ceil_div(group.window - 1 + (step_tokens - 1), block_tokens) + 1);
    }
    sum += std::min(blocks, kMost);
  }
  return static_cast<std::uint32_t>(std::min(sum, kMost));
}

KvLayout plan_layout(std::span<const int> windows, int heads, int head_dim, tensor::DType dtype, int block_tokens) {
  CHECK(!windows.empty() && heads > 0 && head_dim > 0 && block_tokens > 0,
        "{} layers, {} heads of {}, {} tokens per block", windows.size(), heads, head_dim, block_tokens);
  std::map<int, std::vector<int>> kinds;  // by window: full attention comes first
  for (std::size_t layer = 0; layer < windows.size(); ++layer) {
    CHECK(windows[layer] >= 0, "layer {} has window {}", layer, windows[layer]);
    kinds[windows[layer]].push_back(static_cast<int>(layer));
  }

  KvLayout layout;
  layout.block_tokens = block_tokens;
  layout.heads = heads;
  layout.head_dim = head_dim;
  layout.dtype = dtype;
  layout.layer_slots = choose_layer_slots(kinds);
  layout.place.resize(windows.size());
  for (const auto& [window, layers] : kinds) {
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const int slot = static_cast<int>(i) % layout.layer_slots;
      if (slot == 0) layout.groups.push_back({window, {}});
      layout.groups.back().layers.push_back(layers[i]);
      layout.place[static_cast<std::size_t>(layers[i])] = {static_cast<int>(layout.groups.size()) - 1, slot};
    }
  }
  return layout;
}

}  // namespace weir::kv
