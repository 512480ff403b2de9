// `weir plan sim`: runs a load with one or several seeds, and reports as text, JSON and a page.
#pragma once

#include <string>
#include <vector>

#include "plan/report.h"
#include "plan/sim/scenario.h"
#include "plan/sim/summary.h"

namespace weir::plan::sim {

struct SimSpec {
  Slo slo;
  std::uint64_t seed = 1;
  int seeds = 1;  // seed, seed + 1, ...
  bool want_page = false, want_picture = false, want_requests = false;
};

struct SimReport {
  Report report;
  std::string page;      // HTML, complete in itself, of the first seed's run
  std::string picture;   // the page's pictures as one SVG
  std::string requests;  // a table of the first seed's requests: CSV
};

Result<SimReport> simulate_load(const Scenario& scenario, const Load& load, const SimSpec& spec);

// The page: figures, distributions and the run over time, as SVG.
std::string html_page(const Report& report, const SimResult& result, const Workload& workload);
std::string svg_picture(const SimResult& result, const Workload& workload);

}  // namespace weir::plan::sim
