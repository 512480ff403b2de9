// `weir plan validate live`.
#include <memory>

#include "apps/commands.h"
#include "apps/number_range.h"
#include "apps/plan_command.h"
#include "apps/validate_live.h"

namespace weir::apps {
namespace {

// Where scripts/fetch-model puts them.
const std::vector<std::string> kModels = {"build/models/SmolLM2-135M-Instruct.Q4_1.gguf",
                                          "build/models/gemma-3-270m-q4_k_m.gguf"};
// Twelve scenarios in three minutes.
constexpr double kQuickSeconds = 2, kQuickCalibration_s = 10;
constexpr std::size_t kQuickServers = 2;

void add_memory(CLI::App& validate, int& status) {
  const auto [command, options] = add_report<ValidateMemoryOptions>(
      validate, status, "memory", "resident sets of servers on this machine: predicted and measured",
      [](const ValidateMemoryOptions& given) {
        ValidateMemoryOptions all = given;
        if (all.models.empty()) all.models = kModels;
        return validate_memory(all);
      });
  command->add_option("MODEL", options->models, "models to serve; otherwise the two that scripts/fetch-model gets");
  command->add_option("--threads", options->threads, "compute threads; 0 = all cores")->check(CLI::Range(0, 1024));
  command->add_option("--seed", options->seed, "of the prompts")->capture_default_str();
}

}  // namespace

void add_plan_validate_live(CLI::App& plan, int& status) {
  add_memory(validate_of(plan), status);
  auto* command =
      validate_of(plan).add_subcommand("live", "serving on this machine: predicted, measured, measured again");
  auto options = std::make_shared<ValidateLiveOptions>();
  auto quick = std::make_shared<bool>(false);
  auto json = std::make_shared<bool>(false);
  command->add_option("MODEL", options->models, "models to serve; otherwise the two that scripts/fetch-model gets");
  command->add_option("--step-model", options->step_models,
                      "files of `plan calibrate`, one for each model, instead of calibrating first");
  auto* seconds = command->add_option("--seconds", options->seconds, "of arrivals in each scenario")
                      ->check(number_range(1.0, 3600.0))
                      ->capture_default_str();
  auto* calibration = command->add_option("--calibration-seconds", options->calibration_s, "of load for the step model")
                          ->check(number_range(1.0, 3600.0))
                          ->capture_default_str();
  auto* servers =
      command->add_option("--servers", options->most_servers, "try only so many settings of the server; 0 = all")
          ->check(CLI::Range(0, 1000));
  command->add_option("--runs", options->runs, "of each scenario")->check(CLI::Range(1, 100))->capture_default_str();
  command->add_option("--threads", options->threads, "compute threads; 0 = all cores")->check(CLI::Range(0, 1024));
  command->add_option("--seed", options->seed, "of arrivals, lengths and prompts")->capture_default_str();
  command->add_flag("--quick", *quick, "in three minutes: half of the scenarios, shorter, and a shorter calibration");
  command->add_flag("--json", *json, "as JSON");
  command->callback([=, &status] {
    if (*quick && seconds->count() == 0) options->seconds = kQuickSeconds;
    if (*quick && calibration->count() == 0) options->calibration_s = kQuickCalibration_s;
    if (*quick && servers->count() == 0) options->most_servers = kQuickServers;
    if (options->models.empty()) options->models = kModels;
    status = print_report(validate_live(*options), *json);
  });
}

}  // namespace weir::apps
