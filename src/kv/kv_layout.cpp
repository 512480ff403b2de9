#include "kv/kv_layout.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "base/check.h"

namespace weir::kv {

namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return a / b + (a % b != 0);
}

// A kind of streams: which they are, and the bytes of one in a block.
struct Kind {
  std::vector<int> streams;
  std::int64_t slice_bytes = 0;

  std::int64_t bytes() const { return slice_bytes * static_cast<std::int64_t>(streams.size()); }
  // Streams of this kind in a block of so many bytes, and the groups that makes. Evenly filled where there are several.
  std::int64_t groups_of(std::int64_t block_bytes) const {
    return ceil_div(static_cast<std::int64_t>(streams.size()), block_bytes / slice_bytes);
  }
  std::int64_t unused(std::int64_t block_bytes) const { return groups_of(block_bytes) * block_bytes - bytes(); }
};

// The smallest block that makes no more groups than this one.
std::int64_t tightened(const std::map<KvStream, Kind>& kinds, std::int64_t block_bytes) {
  std::int64_t needed = 0;
  for (const auto& [stream, kind] : kinds) {
    const auto count = static_cast<std::int64_t>(kind.streams.size());
    needed = std::max(needed, ceil_div(count, kind.groups_of(block_bytes)) * kind.slice_bytes);
  }
  return needed;
}

// The largest block that every kind fills to within an eighth. Larger blocks mean fewer groups, hence fewer tables and
// block names per sequence; unused bytes are memory lost for good. Where no block does, the one that wastes least.
std::int64_t choose_block_bytes(const std::map<KvStream, Kind>& kinds) {
  std::int64_t least = 0;
  for (const auto& [stream, kind] : kinds) least = std::max(least, kind.slice_bytes);
  std::set<std::int64_t, std::greater<>> candidates;
  for (const auto& [stream, kind] : kinds) {
    for (std::int64_t n = 1; n <= static_cast<std::int64_t>(kind.streams.size()); ++n) {
      if (n * kind.slice_bytes >= least) candidates.insert(n * kind.slice_bytes);
    }
  }
  std::int64_t best = 0, best_unused = std::numeric_limits<std::int64_t>::max();
  for (const std::int64_t bytes : candidates) {
    std::int64_t unused = 0;
    bool fills = true;
    for (const auto& [stream, kind] : kinds) {
      unused += kind.unused(bytes);
      fills = fills && kind.unused(bytes) * 8 <= kind.bytes();
    }
    if (fills) return tightened(kinds, bytes);
    if (unused < best_unused) {
      best = bytes;
      best_unused = unused;
    }
  }
  return tightened(kinds, best);
}

}  // namespace

double KvLayout::bytes_per_token() const {
  const auto full = std::count_if(groups.begin(), groups.end(), [](const KvGroup& group) { return group.window == 0; });
  return static_cast<double>(full) * static_cast<double>(block_bytes) / block_tokens;
}

std::uint32_t KvLayout::blocks_needed(std::int64_t tokens, std::int64_t step_tokens) const {
  CHECK(tokens >= 0 && step_tokens >= 1, "{} tokens, {} per step", tokens, step_tokens);
  constexpr std::int64_t kMost = std::numeric_limits<std::uint32_t>::max();
  std::int64_t sum = tokens > 0 ? std::min(state_blocks, kMost) : 0;
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

KvLayout plan_layout(std::span<const KvStream> streams, tensor::DType dtype, int block_tokens,
                     std::int64_t state_bytes) {
  CHECK(!streams.empty() && block_tokens > 0, "{} streams, {} tokens per block", streams.size(), block_tokens);
  std::map<KvStream, Kind> kinds;  // by window first: full attention comes first
  for (std::size_t i = 0; i < streams.size(); ++i) {
    const KvStream& stream = streams[i];
    CHECK(stream.window >= 0 && stream.heads > 0 && stream.key_dim > 0 && stream.value_dim >= 0,
          "stream {}: window {}, {} heads of {} and {}", i, stream.window, stream.heads, stream.key_dim,
          stream.value_dim);
    Kind& kind = kinds[stream];
    kind.streams.push_back(static_cast<int>(i));
    kind.slice_bytes = std::int64_t{stream.heads} * block_tokens *
                       (tensor::row_bytes(dtype, stream.key_dim) + tensor::row_bytes(dtype, stream.value_dim));
  }

  KvLayout layout;
  layout.block_tokens = block_tokens;
  layout.dtype = dtype;
  layout.block_bytes = choose_block_bytes(kinds);
  layout.state_blocks = ceil_div(state_bytes, layout.block_bytes);
  layout.place.resize(streams.size());
  for (const auto& [stream, kind] : kinds) {
    const auto count = static_cast<std::int64_t>(kind.streams.size());
    const std::int64_t in_a_group = ceil_div(count, kind.groups_of(layout.block_bytes));
    for (std::int64_t i = 0; i < count; ++i) {
      const int index = kind.streams[static_cast<std::size_t>(i)];
      if (i % in_a_group == 0) layout.groups.push_back({stream.window, {}});
      layout.groups.back().streams.push_back(index);
      layout.place[static_cast<std::size_t>(index)] = {static_cast<int>(layout.groups.size()) - 1,
                                                       i % in_a_group * kind.slice_bytes};
    }
  }
  return layout;
}

}  // namespace weir::kv
