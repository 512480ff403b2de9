#include "plan/search/instance_model.h"

#include <algorithm>
#include <array>

#include "plan/search/search.h"

namespace weir::plan {

std::string Precision::name() const {
  return fmt::format("{}, KV {} bit", weights.name, kv_bits);
}

std::string_view resource_name(Resource resource) {
  switch (resource) {
    case Resource::kMemoryBandwidth:
      return "memory bandwidth";
    case Resource::kCompute:
      return "compute";
    case Resource::kLinks:
      return "links";
    case Resource::kOverhead:
      return "overhead";
  }
  return "";
}

Resource largest(const StepParts& parts) {
  const std::array all = {parts.memory_s, parts.compute_s, parts.links_s, parts.fixed_s};
  return static_cast<Resource>(std::max_element(all.begin(), all.end()) - all.begin());
}

std::string_view batch_limit_name(BatchLimit limit) {
  switch (limit) {
    case BatchLimit::kNothing:
      return "";
    case BatchLimit::kKvCapacity:
      return "KV capacity";
    case BatchLimit::kTpot:
      return "TPOT objective";
    case BatchLimit::kTtft:
      return "TTFT objective";
    case BatchLimit::kPrefill:
      return "prefill";
    case BatchLimit::kMaxBatch:
      return "max batch";
  }
  return "";
}

}  // namespace weir::plan
