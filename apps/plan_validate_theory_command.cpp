// `weir plan validate theory`.
#include <memory>

#include "apps/plan_command.h"
#include "plan/sim/theory.h"

namespace weir::apps {

void add_plan_validate_theory(CLI::App& plan, int& status) {
  struct Options {
    std::int64_t customers = 10'000'000;
    std::uint64_t seed = 1;
  };
  const auto [command, options] = add_report<Options>(
      validate_of(plan), status, "theory", "the simulator beside queueing theory: M/M/1, M/D/1, M/G/1, Little",
      [](const Options& o) { return plan::sim::theory_report(o.customers, o.seed); });
  command->add_option("--customers", options->customers, "of each queue")
      ->check(CLI::Range(1000LL, 1'000'000'000LL))
      ->capture_default_str();
  command->add_option("--seed", options->seed)->capture_default_str();
}

}  // namespace weir::apps
