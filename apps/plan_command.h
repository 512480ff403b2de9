// `weir plan ...`: the planner's commands, one file each. They parse options, call src/plan and print a Report.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "base/result.h"
#include "plan/report.h"

namespace weir::apps {

void add_plan(CLI::App& app, int& status);

// Each adds its own command to `weir plan`.
void add_plan_calibrate(CLI::App& plan, int& status);
void add_plan_goodput(CLI::App& plan, int& status);
void add_plan_kv(CLI::App& plan, int& status);
void add_plan_parallel(CLI::App& plan, int& status);
void add_plan_roofline(CLI::App& plan, int& status);
void add_plan_serve(CLI::App& plan, int& status);
void add_plan_sim(CLI::App& plan, int& status);
void add_plan_size(CLI::App& plan, int& status);
void add_plan_spec(CLI::App& plan, int& status);
void add_plan_step(CLI::App& plan, int& status);
void add_plan_validate(CLI::App& plan, int& status);  // silicon, ops, published, regret
void add_plan_validate_live(CLI::App& plan, int& status);
void add_plan_validate_theory(CLI::App& plan, int& status);
void add_plan_validate_vllm(CLI::App& plan, int& status);

// `weir plan validate`, made by whoever asks first.
CLI::App& validate_of(CLI::App& plan);

// Prints the report as text or JSON, or the error; the exit status.
int print_report(const Result<plan::Report>& report, bool json);

// A command that prints what `answer` makes of Options, for the caller to add the options of; and --json.
template <class Options>
struct ReportCommand {
  CLI::App* command;
  Options* options;  // as long as the command
};
template <class Options, class Answer>
ReportCommand<Options> add_report(CLI::App& parent, int& status, const std::string& name, const std::string& what,
                                  Answer answer) {
  struct Kept {
    Options options;
    bool json = false;
  };
  auto kept = std::make_shared<Kept>();
  auto* command = parent.add_subcommand(name, what);
  command->add_flag("--json", kept->json, "every figure, as JSON");
  command->callback([kept, answer, &status] { status = print_report(answer(kept->options), kept->json); });
  return {command, &kept->options};
}

}  // namespace weir::apps
