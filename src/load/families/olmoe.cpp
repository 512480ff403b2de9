// OLMoE: Llama with experts, norms of the whole of q and k, and perhaps a limit to q, k and v.
#include "load/families/family.h"

namespace weir::load {
namespace {

constexpr Family::HfClass kClasses[] = {{"OlmoeForCausalLM", "olmoe"}};
constexpr std::string_view kGguf[] = {"olmoe"};
constexpr std::int64_t kContext = 4096;
constexpr double kEps = 1e-5;

Status read_config(const JsonFields& config, ParsedModel& model) {
  WEIR_RETURN_IF_ERROR(read_hf_decoder(config, {.context = kContext, .eps = kEps}, model.spec));
  model.spec.qk_norm = QkNorm::kWidth;
  WEIR_RETURN_IF_ERROR(read_hf_attention_bias(config, model.biases));
  WEIR_TRY(const auto clip, config.number("clip_qkv"));
  if (clip && !(*clip > 0)) {  // 0 would leave nothing, and is how the spec says "off"
    return fail_at("clip_qkv", ErrorCode::kCorruptFile, "{}: clip_qkv is {}; a positive number expected", config.file(),
                   *clip);
  }
  model.spec.qkv_clip = static_cast<float>(clip.value_or(0.0));
  return read_hf_experts(config, "intermediate_size", model.spec);
}

Status read_gguf(const GgufKeys& keys, ParsedModel& model) {
  WEIR_RETURN_IF_ERROR(read_gguf_decoder(keys, {}, model.spec));
  model.spec.qk_norm = QkNorm::kWidth;
  return read_gguf_experts(keys, model.spec);
}

}  // namespace

extern const Family kOlmoeFamily = {.name = "olmoe",
                                    .classes = kClasses,
                                    .read_config = read_config,
                                    .gguf_architectures = kGguf,
                                    .read_gguf = read_gguf};

}  // namespace weir::load
