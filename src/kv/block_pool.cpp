#include "kv/block_pool.h"

#include "base/check.h"

namespace weir::kv {

BlockPool::BlockPool(std::uint32_t capacity)
    : references_(capacity, 0),
      next_(std::size_t{capacity} + 1, kUnlinked),
      prev_(std::size_t{capacity} + 1, kUnlinked) {
  CHECK(capacity < kUnlinked - 1, "a pool of {} blocks", capacity);
  free_.reserve(capacity);
  for (std::uint32_t block = capacity; block > 0; --block) free_.push_back(block - 1);
  next_[capacity] = prev_[capacity] = capacity;
}

std::optional<BlockPool::Taken> BlockPool::acquire() {
  Taken taken;
  if (!free_.empty()) {
    taken.block = BlockId{free_.back()};
    free_.pop_back();
  } else if (idle_ > 0) {
    const std::uint32_t oldest = next_[capacity()];
    unlink(oldest);
    taken = {BlockId{oldest}, true};
  } else {
    return std::nullopt;
  }
  references_[value(taken.block)] = 1;
  return taken;
}

void BlockPool::retain(BlockId block) {
  const std::uint32_t b = value(block);
  CHECK(references_[b] > 0 || is_idle(block), "block {} is free: its contents are gone", b);
  if (references_[b] == 0) unlink(b);
  ++references_[b];
}

BlockPool::Release BlockPool::release(BlockId block, bool keep) {
  const std::uint32_t b = value(block);
  CHECK(references_[b] > 0, "block {} has no reference to give back", b);
  if (--references_[b] > 0) return Release::kStillUsed;
  if (!keep) {
    free_.push_back(b);
    return Release::kFree;
  }
  const std::uint32_t sentinel = capacity();
  const std::uint32_t youngest = prev_[sentinel];
  next_[youngest] = b;
  prev_[b] = youngest;
  next_[b] = sentinel;
  prev_[sentinel] = b;
  ++idle_;
  return Release::kIdle;
}

void BlockPool::forget(BlockId block) {
  CHECK(is_idle(block), "block {} is not idle", value(block));
  unlink(value(block));
  free_.push_back(value(block));
}

std::optional<BlockId> BlockPool::oldest_idle() const {
  if (idle_ == 0) return std::nullopt;
  return BlockId{next_[capacity()]};
}

void BlockPool::unlink(std::uint32_t block) {
  next_[prev_[block]] = next_[block];
  prev_[next_[block]] = prev_[block];
  next_[block] = prev_[block] = kUnlinked;
  --idle_;
}

void BlockPool::check_integrity() const {
  std::vector<bool> seen(capacity(), false);
  for (const std::uint32_t block : free_) {
    CHECK(block < capacity() && !seen[block], "block {} is in the free stack twice", block);
    CHECK(references_[block] == 0 && !is_idle(BlockId{block}), "free block {}: {} references, idle {}", block,
          references_[block], is_idle(BlockId{block}));
    seen[block] = true;
  }
  std::uint32_t idle = 0;
  for (std::uint32_t block = next_[capacity()]; block != capacity(); block = next_[block]) {
    CHECK(block < capacity() && !seen[block], "block {} is idle twice, or idle and free", block);
    CHECK(references_[block] == 0, "idle block {} has {} references", block, references_[block]);
    CHECK(prev_[next_[block]] == block, "the idle ring is broken at block {}", block);
    seen[block] = true;
    ++idle;
  }
  CHECK(idle == idle_, "{} blocks in the idle ring, {} counted", idle, idle_);
  for (std::uint32_t block = 0; block < capacity(); ++block) {
    CHECK(seen[block] == (references_[block] == 0), "block {} is in no state: {} references", block,
          references_[block]);
  }
}

}  // namespace weir::kv
