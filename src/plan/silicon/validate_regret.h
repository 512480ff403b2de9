// `weir plan validate regret`: is the configuration that the planner would pick as good as the best that was measured?
#pragma once

#include "base/result.h"
#include "plan/report.h"

namespace weir::plan {

// Groups: aggregated rows of one model on one GPU for one pair of lengths, at least 8 configurations (backend, version,
// types, layout, concurrency). Levels: the deciles of the group's measured TPOT, as promises to keep. At each the
// planner sees the inputs only and picks, of the configurations that it predicts to keep the promise, the one with the
// highest predicted output tokens per second and device. Twice: as a planner that has the measurements of the group,
// and with predictions of the fold that had not seen the row. Ratio: measured throughput of the pick over the best
// measured throughput at equal or better TPOT than the pick's.
Result<Report> validate_regret();

}  // namespace weir::plan
