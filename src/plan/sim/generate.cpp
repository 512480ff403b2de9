#include "plan/sim/generate.h"

namespace weir::plan::sim {

using traffic::Random;

namespace {

enum Stream : std::uint64_t { kTimes = 1, kPrompts = 2, kOutputs = 3, kGroups = 4, kRows = 5 };

}  // namespace

Workload generate(const GenerateSpec& spec) {
  Workload workload;
  workload.name = spec.arrivals.describe();
  if (spec.arrivals.kind == Arrivals::Kind::kClosed) {
    workload.concurrency = spec.arrivals.concurrency;
    workload.think_s = spec.arrivals.think_s;
  }
  const std::vector<double> times = draw_arrivals(spec.arrivals, spec.requests, Random(spec.seed, kTimes));
  Random prompts(spec.seed, kPrompts), outputs(spec.seed, kOutputs), groups(spec.seed, kGroups), rows(spec.seed, kRows);
  workload.requests.resize(spec.requests);
  if (spec.prefix_tokens > 0) {
    workload.id_tokens = spec.prefix_tokens;  // one id is one whole prefix
    for (int g = 0; g < spec.prefix_groups; ++g) workload.ids.push_back(mix(spec.seed, static_cast<std::uint64_t>(g)));
  }
  for (std::size_t i = 0; i < spec.requests; ++i) {
    Request& request = workload.requests[i];
    request.arrival_s = times[i];
    if (spec.empirical.empty()) {
      request.prompt_tokens = spec.prompt.draw(prompts);
      request.output_tokens = spec.output.draw(outputs);
    } else {
      const auto& row = spec.empirical[rows.below(spec.empirical.size())];
      request.prompt_tokens = row.first;
      request.output_tokens = row.second;
    }
    if (spec.prefix_tokens == 0) continue;
    request.prompt_tokens += spec.prefix_tokens;
    request.first_id = static_cast<std::uint32_t>(groups.below(static_cast<std::uint64_t>(spec.prefix_groups)));
    request.id_count = 1;
  }
  return workload;
}

}  // namespace weir::plan::sim
