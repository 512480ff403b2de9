// DeepSeek V3 and R1: V2 with experts chosen by sigmoid with a correction, within the groups whose best two are best.
// Its GGUF files say "deepseek2".
#include "load/latent_parts.h"

namespace weir::load {
namespace {

constexpr Family::HfClass kClasses[] = {{"DeepseekV3ForCausalLM", "deepseek_v3"}};

Status read_config(const JsonFields& config, ParsedModel& model) {
  WEIR_TRY(const auto interleaved, config.boolean("rope_interleave"));
  WEIR_RETURN_IF_ERROR(read_hf_latent(config, interleaved.value_or(true), model));
  return read_hf_corrected_experts(config, model.spec);
}

}  // namespace

extern const Family kDeepseekV3Family = {.name = "deepseek_v3",
                                         .classes = kClasses,
                                         .read_config = read_config,
                                         .name_hf_tensors = name_hf_latent,
                                         .written_as = "deepseek2"};

}  // namespace weir::load
