// Positions that an indexer scores best: SelectCall's contract (backend/backend.h). A score is one chain of
// multiply-adds per head over its dimensions, heads add up in ascending order, each position in a lane of its own at
// its place in a tile of 64: so it does not depend on the batch, on chunks, blocks or threads, and neither does the
// choice.
//
// Scores of some queries at a time are kept (at most a few MB, or one query's), tiles shared out among the threads;
// then every thread chooses for some queries. A query that sees no more positions than may be chosen gets all,
// unscored. Threads: one caller at a time per scratch. Allocates only while the scratch grows.
#pragma once

#include <vector>

#include "backend/backend.h"
#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/memory.h"
#include "base/thread_pool.h"

namespace weir::backend::cpu {

struct SelectScratch {
  struct Worker {
    Memory keys, wide_keys;
    std::vector<std::uint32_t> ranks;
  };
  struct Query {
    std::int64_t row = 0;  // of the batch
    std::int32_t sequence = 0, seen = 0;
  };
  std::vector<Worker> workers;
  std::vector<Query> queries;
  Memory scores;
};

void select_positions(ThreadPool& pool, Isa isa, const SelectCall& call, SelectScratch& scratch);

}  // namespace weir::backend::cpu
