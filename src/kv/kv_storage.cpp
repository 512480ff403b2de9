#include "kv/kv_storage.h"

#include <cstring>

#include "base/check.h"

namespace weir::kv {

std::int64_t KvStorage::bytes(const KvLayout& layout, std::uint32_t num_blocks) {
  std::int64_t bytes = 0;
  const bool overflow = __builtin_mul_overflow(layout.block_bytes, std::int64_t{num_blocks}, &bytes);
  CHECK(!overflow, "{} blocks of {} bytes", num_blocks, layout.block_bytes);
  return bytes;
}

KvStorage::KvStorage(const KvLayout& layout, std::uint32_t num_blocks, std::byte* arena)
    : layout_(layout), num_blocks_(num_blocks), arena_(arena) {
  CHECK(arena != nullptr || num_blocks == 0);
}

KvStorage::Slice KvStorage::stream(int index) const {
  const auto i = static_cast<std::size_t>(index);
  CHECK(index >= 0 && i < layout_.place.size(), "stream {} of {}", index, layout_.place.size());
  return {arena_ + layout_.place[i].offset, layout_.block_bytes};
}

std::span<std::byte> KvStorage::block(BlockId block) const {
  CHECK(value(block) < num_blocks_, "block {} of {}", value(block), num_blocks_);
  return {arena_ + value(block) * layout_.block_bytes, static_cast<std::size_t>(layout_.block_bytes)};
}

void KvStorage::copy(BlockId from, BlockId to) const {
  const auto bytes = block(from);
  std::memcpy(block(to).data(), bytes.data(), bytes.size());
}

void KvStorage::poison(BlockId block) const {
  CHECK(!tensor::is_quantised(layout_.dtype), "poison of {}", tensor::info(layout_.dtype).name);
  const auto bytes = this->block(block);
  std::memset(bytes.data(), 0xff, bytes.size());  // all bits set is a NaN in F32, F16 and BF16
}

}  // namespace weir::kv
