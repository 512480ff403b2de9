// Qwen 2 and 2.5: Llama with biases on q, k and v, and perhaps windows in the later layers.
#include "load/families/family.h"

namespace weir::load {
namespace {

constexpr Family::HfClass kClasses[] = {{"Qwen2ForCausalLM", "qwen2"}};
constexpr std::string_view kGguf[] = {"qwen2"};

Status read_config(const JsonFields& config, ParsedModel& model) {
  WEIR_RETURN_IF_ERROR(read_hf_decoder(config, {}, model.spec));
  model.biases.qkv = Presence::kRequired;
  return read_qwen_windows(
      config, [](int layer, std::int64_t full_layers) { return layer >= full_layers; }, model.spec);
}

Status read_gguf(const GgufKeys& keys, ParsedModel& model) {
  model.biases.qkv = Presence::kRequired;
  return read_gguf_decoder(keys, {}, model.spec);
}

}  // namespace

extern const Family kQwen2Family = {.name = "qwen2",
                                    .classes = kClasses,
                                    .read_config = read_config,
                                    .gguf_architectures = kGguf,
                                    .read_gguf = read_gguf};

}  // namespace weir::load
