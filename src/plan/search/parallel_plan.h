// `weir plan parallel`: what a model, a device and a workload come to as a search, and the search's result as a report.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "plan/hardware.h"
#include "plan/model_card.h"
#include "plan/report.h"
#include "plan/search/search.h"

namespace weir::plan {

struct ParallelOptions {
  double input_tokens = 1024, output_tokens = 1024, cached_fraction = 0;
  int devices = 8;  // at most, all together
  std::vector<std::string>
      weights;                  // names of weight types; empty: the model's own and what the device computes natively
  std::vector<double> kv_bits;  // empty: 16 and 8
  std::vector<int> batch_tokens, block_sizes;  // empty: SearchRequest's
  std::int64_t max_batch = 4096;
  bool aggregated = true, disaggregated = true;
  std::optional<double> ttft_ms, tpot_ms;
  std::string backend;                          // whose measured step times; empty: what engines have in common
  std::optional<double> price_per_device_hour;  // else the device's, if known
  int top = 12;                                 // rows of each table of the text
};

struct ParallelPlan {
  Report report;
  std::string svg;  // the front as a picture
};

Result<ParallelPlan> plan_parallel(const ModelCard& card, const Hardware& hardware, const ParallelOptions& options);

// Of a finished search; what plan_parallel is made of.
struct SearchTitle {
  std::string model, hardware;
  std::string step_times;  // where they are from
};
Report search_report(const SearchTitle& title, const SearchRequest& request, const SearchResult& result, int top);
std::string front_svg(const SearchTitle& title, const SearchResult& result);

}  // namespace weir::plan
