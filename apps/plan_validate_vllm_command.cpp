// `weir plan validate vllm`.
#include <memory>
#include <string>

#include "apps/plan_command.h"
#include "plan/vllm/validate.h"

namespace weir::apps {

void add_plan_validate_vllm(CLI::App& plan, int& status) {
  auto* command = validate_of(plan).add_subcommand(
      "vllm", "measured vLLM runs, predicted request by request from kernel profiles and arrivals");
  auto folder = std::make_shared<std::string>();
  auto json = std::make_shared<bool>(false);
  command->add_option("--data", *folder,
                      "folder of a run (meta.json, sim_config.json, requests.jsonl, profile_tp<N>/), or of several; "
                      "without it, the runs in the program");
  command->add_flag("--json", *json, "print JSON");
  command->callback([folder, json, &status] { status = print_report(plan::vllm::validate_vllm(*folder), *json); });
}

}  // namespace weir::apps
