// Qwen 3 (dense): Llama with an RMSNorm of every head of q and k.
#include "load/families/family.h"

namespace weir::load {
namespace {

constexpr Family::HfClass kClasses[] = {{"Qwen3ForCausalLM", "qwen3"}};
constexpr std::string_view kGguf[] = {"qwen3"};
constexpr int kHeadDim = 128;

Status read_config(const JsonFields& config, ParsedModel& model) {
  WEIR_RETURN_IF_ERROR(read_hf_decoder(config, {.head_dim = kHeadDim}, model.spec));
  model.spec.qk_norm = QkNorm::kHead;
  WEIR_RETURN_IF_ERROR(read_hf_attention_bias(config, model.biases));
  return read_qwen_windows(
      config, [](int layer, std::int64_t full_layers) { return layer >= full_layers; }, model.spec);
}

Status read_gguf(const GgufKeys& keys, ParsedModel& model) {
  model.spec.qk_norm = QkNorm::kHead;
  return read_gguf_decoder(keys, {}, model.spec);
}

}  // namespace

extern const Family kQwen3Family = {.name = "qwen3",
                                    .classes = kClasses,
                                    .read_config = read_config,
                                    .gguf_architectures = kGguf,
                                    .read_gguf = read_gguf};

}  // namespace weir::load
