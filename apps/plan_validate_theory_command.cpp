// `weir plan validate theory`.
#include <memory>

#include "apps/plan_command.h"
#include "plan/sim/theory.h"

namespace weir::apps {

void add_plan_validate_theory(CLI::App& plan, int& status) {
  struct Options {
    std::int64_t customers = 10'000'000;
    std::uint64_t seed = 1;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  auto* command =
      validate_of(plan).add_subcommand("theory", "the simulator beside queueing theory: M/M/1, M/D/1, M/G/1, Little");
  command->add_option("--customers", options->customers, "of each queue")
      ->check(CLI::Range(1000LL, 1'000'000'000LL))
      ->capture_default_str();
  command->add_option("--seed", options->seed)->capture_default_str();
  command->add_flag("--json", options->json, "as JSON");
  command->callback([options, &status] {
    status = print_report(plan::sim::theory_report(options->customers, options->seed), options->json);
  });
}

}  // namespace weir::apps
