// Gated delta nets: DeltaCall's contract (backend/backend.h). Tokens of a sequence follow one another one by one, so
// that it does not matter how a prompt is cut. First every thread convolves some rows; then each works on some heads of
// some sequences: it fetches a head's matrix from the state's blocks, goes through the tokens, and puts it back.
// Threads: one caller at a time per scratch. Allocates only while the scratch grows.
#pragma once

#include <vector>

#include "backend/backend.h"
#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/memory.h"
#include "base/thread_pool.h"

namespace weir::backend::cpu {

struct DeltaScratch {
  Memory convolved;              // [tokens, channels]
  std::vector<Memory> matrices;  // of each thread: state, change
};

void delta_net(ThreadPool& pool, Isa isa, const DeltaCall& call, DeltaScratch& scratch);

}  // namespace weir::backend::cpu
