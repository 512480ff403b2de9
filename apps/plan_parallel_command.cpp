// `weir plan parallel`: the deployments of a model on given hardware that no other beats.
#include <fstream>
#include <memory>

#include "apps/commands.h"
#include "apps/plan_command.h"
#include "plan/search/parallel_plan.h"
#include "plan/subject.h"

namespace weir::apps {
namespace {

struct Options {
  std::string model, hardware, svg;
  plan::ParallelOptions search;
  std::vector<std::string> kv;
  std::string roles = "both";
};

Result<plan::Report> parallel(Options options) {
  options.search.aggregated = options.roles != "apart";
  options.search.disaggregated = options.roles != "together";
  for (const auto& name : options.kv) {
    WEIR_TRY(const double bits, plan::parse_kv_bits(name));
    options.search.kv_bits.push_back(bits);
  }
  WEIR_TRY(const auto card, plan::read_model_card(options.model));
  WEIR_TRY(const auto hardware, plan::find_hardware(options.hardware));
  WEIR_TRY(auto plan, plan::plan_parallel(card, hardware, options.search));
  if (!options.svg.empty()) {
    std::ofstream file(options.svg, std::ios::binary);
    file << plan.svg;
    file.close();
    if (!file) return fail(ErrorCode::kInvalidArgument, "--svg: {} cannot be written", options.svg);
  }
  return std::move(plan.report);
}

}  // namespace

void add_plan_parallel(CLI::App& plan, int& status) {
  const auto [command, options] = add_report<Options>(
      plan, status, "parallel",
      "search TP, PP, DP, EP, CP, batches, precisions and split roles for the deployments no other beats", parallel);
  auto& search = options->search;
  command->add_option("model", options->model, "Hugging Face folder, config.json, GGUF, or a known model")->required();
  command->add_option("hardware", options->hardware, "a known device, or NAME,field=value,...")->required();
  command->add_option("--devices", search.devices, "at most so many, all together");
  command->add_option("--input", search.input_tokens, "tokens of a prompt");
  command->add_option("--output", search.output_tokens, "tokens of a reply");
  command->add_option("--cached", search.cached_fraction, "of a prompt, found in the prefix cache: 0 to 1");
  command
      ->add_option("--weights", search.weights,
                   "weight types to try, comma between; default: all that compute natively")
      ->delimiter(',');
  command->add_option("--kv", options->kv, "types of the KV to try, comma between; default: bf16,fp8")->delimiter(',');
  command->add_option("--batch-tokens", search.batch_tokens, "limits of tokens a pass to try, comma between")
      ->delimiter(',');
  command->add_option("--block-size", search.block_sizes, "KV block sizes to try, comma between")->delimiter(',');
  command->add_option("--max-batch", search.max_batch, "most sequences of an instance (of a DP group)");
  command->add_option("--roles", options->roles, "prompts together with decoding, apart from it, or both")
      ->check(CLI::IsMember({"both", "together", "apart"}));
  command->add_option("--ttft-ms", search.ttft_ms, "longest mean time to the first token");
  command->add_option("--tpot-ms", search.tpot_ms, "longest mean time of a further token");
  command->add_option("--backend", search.backend,
                      "whose measured step times: vllm, sglang, trtllm; default: what they have in common");
  command->add_option(
      "--price", search.price_per_device_hour,
      "what a device costs an hour, for the cost of tokens; else price_per_hour= of the hardware, if given");
  command->add_option("--top", search.top, "rows of each table")->check(CLI::Range(1, 1000));
  command->add_option("--svg", options->svg, "write the front as a picture");
}

}  // namespace weir::apps
