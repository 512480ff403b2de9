// The ids that travel between stations. Distinct types, so that a block cannot be passed for a request.
#pragma once

#include <cstdint>
#include <functional>

namespace weir {

// A token of the model's vocabulary. A plain integer because arrays of them go straight to kernels, hashes and JSON.
using TokenId = std::int32_t;

// A sequence being generated: one choice of one request. Unique for the life of the process, ascending in order of
// arrival.
enum class SeqId : std::uint64_t {};

// A physical KV block of the pool.
enum class BlockId : std::uint32_t {};

constexpr std::uint64_t value(SeqId id) {
  return static_cast<std::uint64_t>(id);
}
constexpr std::uint32_t value(BlockId id) {
  return static_cast<std::uint32_t>(id);
}

}  // namespace weir
