// `weir plan step`.
#include <memory>

#include "apps/number_range.h"
#include "apps/plan_command.h"
#include "plan/silicon/step_report.h"

namespace weir::apps {
namespace {

struct Arguments {
  std::string model, gpu = "H100-SXM", types;
  plan::StepQuestion question;
};

Result<plan::Report> answer_step(Arguments arguments) {
  plan::StepQuestion& question = arguments.question;
  WEIR_TRY(question.card, plan::read_model_card(arguments.model));
  WEIR_TRY(question.hardware, plan::find_hardware(arguments.gpu));
  question.types = question.card.types;
  if (!arguments.types.empty()) {
    WEIR_TRY(question.types, plan::parse_weight_types(arguments.types));
  }
  return plan::step_report(question);
}

}  // namespace

void add_plan_step(CLI::App& plan, int& status) {
  const auto [command, arguments] = add_report<Arguments>(
      plan, status, "step", "TTFT and TPOT under a constant number of requests, term by term", answer_step);
  plan::StepQuestion& q = arguments->question;
  command->add_option("model,--model", arguments->model, "folder, config.json, GGUF or a known model's name")
      ->required();
  command->add_option("hardware,--hardware,--gpu", arguments->gpu, "a known device, or NAME,field=value,...")
      ->capture_default_str();
  command->add_option("--weights", arguments->types, "types of the weights: bf16, fp8, nvfp4 ...");
  command->add_option("--kv-bits", q.kv_bits, "of keys and values")
      ->check(number_range(1.0, 32.0))
      ->capture_default_str();
  command->add_option("--backend", q.backend, "vllm, sglang, trtllm; otherwise what they have in common");
  command->add_option("--tp", q.layout.tp, "tensor parallelism")->check(CLI::Range(1, 4096));
  command->add_option("--dp", q.layout.dp, "attention by sequences")->check(CLI::Range(1, 4096));
  command->add_option("--ep", q.layout.ep, "expert parallelism")->check(CLI::Range(1, 4096));
  command->add_option("--pp", q.layout.pp, "pipeline stages")->check(CLI::Range(1, 4096));
  command->add_option("--input", q.input_tokens, "tokens of a prompt")
      ->check(number_range(1.0, 1e7))
      ->capture_default_str();
  command->add_option("--output", q.output_tokens, "tokens of a reply")
      ->check(number_range(1.0, 1e7))
      ->capture_default_str();
  command->add_option("--concurrency", q.concurrency, "requests at once")
      ->check(number_range(1.0, 1e6))
      ->capture_default_str();
}

}  // namespace weir::apps
