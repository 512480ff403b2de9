// Arbitrary bytes as a trace of requests: an error that names a line, or a load that can be simulated to the end. Never
// a crash.
#include <cstdint>
#include <cstdlib>
#include <sstream>

#include "plan/sim/simulator.h"
#include "plan/sim/trace.h"
#include "traffic/trace.h"

namespace {

namespace sim = weir::plan::sim;

struct Pace final : weir::plan::StepModel {
  double step_s(const weir::plan::StepShape& shape) const override { return 0.001 + 1e-6 * shape.tokens; }
};

void require(bool condition) {
  if (!condition) std::abort();
}

void simulate(const sim::Workload& workload) {
  std::int64_t tokens = 0;
  for (const sim::Request& request : workload.requests) tokens += request.prompt_tokens + request.output_tokens;
  if (tokens > 1'000'000) return;  // what is asked for is a second's work
  static const Pace pace;
  sim::Cluster cluster;
  cluster.instances = 2;
  cluster.instance.block_tokens = 64;
  cluster.instance.num_blocks = 200;
  cluster.instance.model = &pace;
  cluster.routing = sim::Routing::kPrefixAware;
  const auto result = sim::simulate(cluster, workload);
  if (!result) return require(!result.error().message.empty());
  require(result->requests.size() == workload.requests.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::istringstream in(std::string(reinterpret_cast<const char*>(data), size));
  const auto trace = weir::traffic::parse_trace(in, "trace");
  if (!trace) {
    require(trace.error().message.find("trace") != std::string::npos);
    return 0;
  }
  for (const double scale : {1.0, 1.0 / 16}) {
    const auto workload = sim::replay(*trace, {.len_scale = scale});
    require(workload.has_value() == trace->has_times);
    if (!workload) return 0;
    require(sim::check_workload(*workload).has_value());
    simulate(*workload);
  }
  return 0;
}
