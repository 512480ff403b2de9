// What the page's script asks for, read strictly.
#pragma once

#include <string_view>

#include "plan/search/parallel_plan.h"

namespace weir::plan {

struct PageRequest {
  ModelCard card;
  Hardware hardware;
  ParallelOptions options;
  // One deployment: what is asked about other than searches.
  ParallelLayout layout;
  std::int64_t batch = 1;
};

// Errors name the field, what it holds and what is allowed.
Result<PageRequest> read_page_request(std::string_view body);

}  // namespace weir::plan
