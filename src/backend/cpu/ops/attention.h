// Attention over paged KV on the CPU: AttentionCall's contract (backend/backend.h) with the same bits whatever the
// batch, the chunking of a prompt, the block size and the number of threads; prefill and decode are one routine.
//
// How the bits are kept
//   * Keys and values are looked at in tiles of 64 tokens at absolute positions (multiples of 64), in ascending order.
//   A score is one chain
//     of multiply-adds over the dimensions; a tile's maximum and sum are reduced over lanes in one fixed way; the
//     output is one chain of multiply-adds over the tokens (FlashAttention's online softmax, Dao et al. 2022).
//   * A token of the tile that a row does not see weighs exactly 0, and a tile of which it sees nothing leaves it
//   unchanged. So it does not
//     matter with which other rows a row shares a tile. What nobody sees (beyond seq_len, before the window) is not
//     read.
//   * Every 512 positions (a run) the row starts afresh; the runs' partial results are always merged in ascending
//   order, whether one thread did them all or each was another's (Flash-Decoding).
// Work is cut into (sequence, KV head, up to 264 rows of (token, query head)) and, when those are too few for the
// threads, into runs. Where few rows share the KV (decode) a piece takes several KV heads, to read long stretches.
//
// How the time is spent
//   * Keys are transposed as they are stored, so that a vector holds one dimension of several tokens. With more than a
//   few rows, they and the values are then widened to F32, in pieces that stay in the first-level cache while four
//   blocks of rows pass over them. That is done once for all rows of a unit; beyond it there are 2 multiply-adds per
//   (row, token, dimension) and one exponential per (row, token).
//   * With few rows, keys and values are widened as they are used, and the lines of the next tile are asked for all
//   along: there reading takes the time.
// Threads: one caller at a time per scratch. Allocates only while the scratch grows.
#pragma once

#include <memory>

#include "backend/backend.h"
#include "backend/cpu/cpu_backend.h"
#include "base/thread_pool.h"

namespace weir::backend::cpu {

// What attention() keeps between calls: per-thread tiles, the list of tasks, partial results of runs.
class AttentionScratch {
 public:
  AttentionScratch();
  ~AttentionScratch();
  AttentionScratch(const AttentionScratch&) = delete;
  AttentionScratch& operator=(const AttentionScratch&) = delete;

  struct Impl;

 private:
  friend void attention(ThreadPool& pool, Isa isa, const AttentionCall& call, AttentionScratch& scratch);
  std::unique_ptr<Impl> impl_;
};

// Keys and values lie in the cache as kv_vectors.h says. `isa` must be one this CPU has.
void attention(ThreadPool& pool, Isa isa, const AttentionCall& call, AttentionScratch& scratch);

}  // namespace weir::backend::cpu
