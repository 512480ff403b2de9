// Choosing experts: RouteCall's contract (backend/backend.h). Each row by itself; equal scores go to the lower number.
// Nothing allocates after the first call of a thread with as many experts.
#pragma once

#include "backend/backend.h"
#include "base/thread_pool.h"

namespace weir::backend::cpu {

void route(ThreadPool& pool, const RouteCall& call);

}  // namespace weir::backend::cpu
