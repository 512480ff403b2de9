// DeepSeek V3.2: V3 where an indexer chooses the positions that each query attends to.
#include "load/latent_parts.h"

namespace weir::load {
namespace {

constexpr Family::HfClass kClasses[] = {{"DeepseekV32ForCausalLM", "deepseek_v32"}};

Status read_config(const JsonFields& config, ParsedModel& model) {
  WEIR_RETURN_IF_ERROR(read_hf_latent(config, /*interleaved=*/true, model));
  WEIR_RETURN_IF_ERROR(read_hf_corrected_experts(config, model.spec));
  return read_hf_indexer(config, RopeSpec::Pairing::kHalves, model.spec);
}

}  // namespace

extern const Family kDeepseekV32Family = {
    .name = "deepseek_v32", .classes = kClasses, .read_config = read_config, .name_hf_tensors = name_hf_indexed};

}  // namespace weir::load
