#include "apps/plan_command.h"

#include <fmt/core.h>

#include "apps/commands.h"

namespace weir::apps {

void add_plan(CLI::App& app, int& status) {
  auto* plan = app.add_subcommand("plan", "what a model needs and reaches on given hardware, before it is rented");
  plan->require_subcommand(1);
  add_plan_calibrate(*plan, status);
  add_plan_goodput(*plan, status);
  add_plan_kv(*plan, status);
  add_plan_parallel(*plan, status);
  add_plan_roofline(*plan, status);
  add_plan_serve(*plan, status);
  add_plan_sim(*plan, status);
  add_plan_size(*plan, status);
  add_plan_spec(*plan, status);
  add_plan_step(*plan, status);
  add_plan_validate(*plan, status);
  add_plan_validate_live(*plan, status);
  add_plan_validate_theory(*plan, status);
  add_plan_validate_vllm(*plan, status);
}

CLI::App& validate_of(CLI::App& plan) {
  for (CLI::App* there : plan.get_subcommands({})) {
    if (there->get_name() == "validate") return *there;
  }
  auto* validate = plan.add_subcommand("validate", "the planner's predictions beside measurements");
  validate->require_subcommand(1);
  return *validate;
}

int print_report(const Result<plan::Report>& report, bool json) {
  if (!report) return fail_with(report.error());
  if (json) {
    // What is no UTF-8 in a name that nobody made printable must not cost the whole report.
    fmt::print("{}\n", report->json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  } else {
    fmt::print("{}", report->text);
  }
  return 0;
}

}  // namespace weir::apps
