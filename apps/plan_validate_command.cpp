// `weir plan validate ...`: the planner held to measurements.
#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "apps/plan_command.h"
#include "load/json_fields.h"
#include "plan/silicon/validate_silicon.h"

namespace weir::apps {
namespace {

constexpr std::size_t kMaxDataBytes = std::size_t{64} << 20;

struct SiliconArguments {
  std::string data;
  bool all_groups = false, json = false;
};

Result<plan::Report> run_silicon(const SiliconArguments& arguments) {
  plan::SiliconValidation options;
  options.groups_of_mixtures = arguments.all_groups;
  if (!arguments.data.empty()) {
    WEIR_TRY(options.text, load::read_text_file(arguments.data, kMaxDataBytes));
    options.file = arguments.data;
  }
  return plan::validate_silicon(options);
}

void add_silicon(CLI::App& validate, int& status) {
  auto* command = validate.add_subcommand("silicon", "TTFT and TPOT of measured GPU deployments, cross-validated");
  auto arguments = std::make_shared<SiliconArguments>();
  command->add_option("--data", arguments->data, "rows to score with the model of the shared table (CSV, its columns)");
  command->add_flag("--all-groups", arguments->all_groups, "leave out models and GPUs of mixtures too (slower)");
  command->add_flag("--json", arguments->json, "figures as JSON");
  command->callback([arguments, &status] { status = print_report(run_silicon(*arguments), arguments->json); });
}

}  // namespace

void add_plan_validate(CLI::App& plan, int& status) {
  CLI::App& validate = validate_of(plan);
  add_silicon(validate, status);
}

}  // namespace weir::apps
