#include "apps/plan_subject_options.h"

#include <algorithm>
#include <array>

namespace weir::apps {
namespace {

constexpr std::array kLayoutOptions = {"--tp", "--pp", "--dp", "--ep", "--cp"};

}  // namespace

void add_subject_options(CLI::App& command, plan::SubjectQuery& query, HardwareOption hardware) {
  command.add_option("model,--model", query.model, "Hugging Face folder, config.json, GGUF, or a known model")
      ->required();
  auto* device = command.add_option("hardware,--hardware", query.hardware, "a known device, or NAME,field=value,...");
  if (hardware == HardwareOption::kRequired) device->required();
  command.add_option("--tp", query.layout.tp, "tensor parallelism");
  command.add_option("--pp", query.layout.pp, "pipeline stages");
  command.add_option("--dp", query.layout.dp, "attention by sequences: groups of TP devices");
  command.add_option("--ep", query.layout.ep, "devices that share the experts; divides TP x DP x CP");
  command.add_option("--cp", query.layout.cp, "context parallelism");
  command.add_option("--weights", query.weights, "types of the weights: bf16, fp8, nvfp4, int4, q4_k_m, ...");
  command.add_option("--kv", query.kv, "type of the KV: bf16, fp8, f32, nvfp4");
}

bool layout_given(const CLI::App& command) {
  return std::ranges::any_of(kLayoutOptions, [&](const char* name) { return command.count(name) > 0; });
}

}  // namespace weir::apps
