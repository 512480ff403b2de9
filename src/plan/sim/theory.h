// The simulator against queueing theory: one server, one request at a time, whose times are known in closed form.
//
// A request's service is the reading of its prompt, one step at a time per token of the pace of the StepModel; so
// arrivals, scheduler, KV manager, clock and results are those of any simulation.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/report.h"

namespace weir::plan::sim {

struct TheoryRow {
  std::string queue;  // "M/M/1, load 0.5"
  std::string what;   // "mean wait, in mean services"
  double expected = 0, simulated = 0;
  double error() const { return simulated / expected - 1; }
};

// Waiting times of M/M/1, M/D/1 and M/G/1 (Pollaczek and Khinchine: W = lambda E[S^2] / (2 (1 - rho))) and Little's
// law, each over `customers` requests in independent runs that start empty.
std::vector<TheoryRow> compare_with_theory(std::int64_t customers, std::uint64_t seed);

Report theory_report(std::int64_t customers, std::uint64_t seed);

}  // namespace weir::plan::sim
