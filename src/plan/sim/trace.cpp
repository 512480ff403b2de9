#include "plan/sim/trace.h"

#include <algorithm>
#include <cmath>

#include "base/printable.h"
#include "traffic/random.h"

namespace weir::plan::sim {

Result<Workload> replay(const Trace& trace, const Replay& how) {
  if (!trace.has_times) {
    return fail_at("trace", ErrorCode::kInvalidArgument,
                   "{} has lengths and no times: give --arrivals as well, and lengths are drawn from it",
                   printable(trace.path));
  }
  if (!(how.len_scale > 0 && how.len_scale <= 1000) || !(how.time_scale > 0 && how.time_scale <= 1e6)) {
    return fail_at("len-scale", ErrorCode::kInvalidArgument,
                   "--len-scale {} and --time-scale {}: both must be above 0, up to "
                   "1000 and 1e6",
                   how.len_scale, how.time_scale);
  }
  Workload workload;
  workload.name = trace.path.substr(trace.path.find_last_of('/') + 1);
  workload.requests.reserve(trace.rows.size());
  for (const traffic::TraceRow& row : trace.rows)
    workload.requests.push_back({row.at_s, row.prompt_tokens, row.output_tokens, row.first_id, row.id_count, 0});
  workload.ids = trace.ids;
  workload.id_tokens = std::max<std::int64_t>(1, std::llround(static_cast<double>(trace.id_tokens) * how.len_scale));
  const auto scaled = [&](std::int64_t tokens) {
    return std::min(kMostTokens / 2,
                    static_cast<std::int64_t>(std::ceil(static_cast<double>(tokens) * how.len_scale - 1e-9)));
  };
  traffic::Random random(how.seed, 6);
  for (Request& request : workload.requests) {
    if (trace.tick_s > 0 && how.spread) request.arrival_s += trace.tick_s * random.uniform();
    request.arrival_s *= how.time_scale;
    request.prompt_tokens = std::max<std::int64_t>(1, scaled(request.prompt_tokens));
    request.output_tokens = scaled(request.output_tokens);
  }
  std::stable_sort(workload.requests.begin(), workload.requests.end(),
                   [](const Request& a, const Request& b) { return a.arrival_s < b.arrival_s; });
  if (trace.tick_s > 0) {
    workload.notes.push_back(fmt::format(
        "timestamps are ticks of {:g} s; {}", trace.tick_s,
        how.spread ? "requests of a tick are spread over it by the seed" : "requests of a tick come all at once"));
  }
  if (how.len_scale != 1)
    workload.notes.push_back(
        fmt::format("len_scale {:g}: an id stands for {} tokens", how.len_scale, workload.id_tokens));
  if (how.time_scale != 1) workload.notes.push_back(fmt::format("time_scale {:g}", how.time_scale));
  return workload;
}

double mean_rate(const Workload& workload) {
  const double span_s = workload.requests.back().arrival_s - workload.requests.front().arrival_s;
  return span_s > 0 ? static_cast<double>(workload.requests.size()) / span_s : 0;
}

}  // namespace weir::plan::sim
