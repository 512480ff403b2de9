// `weir plan validate vllm`.
#include <memory>
#include <string>

#include "apps/plan_command.h"
#include "plan/vllm/validate.h"

namespace weir::apps {

void add_plan_validate_vllm(CLI::App& plan, int& status) {
  const auto [command, folder] = add_report<std::string>(
      validate_of(plan), status, "vllm",
      "measured vLLM runs, predicted request by request from kernel profiles and arrivals", plan::vllm::validate_vllm);
  command->add_option("--data", *folder,
                      "folder of a run (meta.json, sim_config.json, requests.jsonl, profile_tp<N>/), or of several; "
                      "without it, the runs in the program");
}

}  // namespace weir::apps
