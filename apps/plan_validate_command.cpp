// `weir plan validate ...`: the planner held to measurements.
#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "apps/plan_command.h"
#include "load/json_fields.h"
#include "plan/silicon/validate_ops.h"
#include "plan/silicon/validate_published.h"
#include "plan/silicon/validate_regret.h"
#include "plan/silicon/validate_silicon.h"

namespace weir::apps {
namespace {

constexpr std::size_t kMaxDataBytes = std::size_t{64} << 20;

struct SiliconArguments {
  std::string data;
  bool all_groups = false;
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
  const auto [command, arguments] = add_report<SiliconArguments>(
      validate, status, "silicon", "TTFT and TPOT of measured GPU deployments, cross-validated", run_silicon);
  command->add_option("--data", arguments->data, "rows to score with the model of the shared table (CSV, its columns)");
  command->add_flag("--all-groups", arguments->all_groups, "leave out models and GPUs of mixtures too (slower)");
}

void add_fixed(CLI::App& validate, int& status, const char* name, const char* what, Result<plan::Report> (*run)()) {
  struct Nothing {};
  add_report<Nothing>(validate, status, name, what, [run](const Nothing&) { return run(); });
}

}  // namespace

void add_plan_validate(CLI::App& plan, int& status) {
  CLI::App& validate = validate_of(plan);
  add_silicon(validate, status);
  add_fixed(validate, status, "ops", "GEMM, attention and collectives on GPUs, at held-out shapes", plan::validate_ops);
  add_fixed(validate, status, "published", "anchors and production figures that others published",
            plan::validate_published);
  add_fixed(validate, status, "regret", "the picked configuration beside the best measured one", plan::validate_regret);
}

}  // namespace weir::apps
