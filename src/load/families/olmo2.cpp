// OLMo 2: norms only of what attention and feed-forward add, and of the whole of q and k.
#include "load/families/family.h"

namespace weir::load {
namespace {

constexpr Family::HfClass kClasses[] = {{"Olmo2ForCausalLM", "olmo2"}};
constexpr std::string_view kGguf[] = {"olmo2"};
constexpr double kEps = 1e-5;

void place_norms(ModelSpec& spec) {
  spec.pre_norms = false;
  spec.post_norms = true;
  spec.qk_norm = QkNorm::kWidth;
}

Status read_config(const JsonFields& config, ParsedModel& model) {
  WEIR_RETURN_IF_ERROR(read_hf_decoder(config, {.eps = kEps}, model.spec));
  place_norms(model.spec);
  WEIR_TRY(model.biases.qkv, read_hf_bias(config, "attention_bias"));
  model.biases.attention_output = model.biases.qkv;
  return {};
}

Status read_gguf(const GgufKeys& keys, ParsedModel& model) {
  WEIR_RETURN_IF_ERROR(read_gguf_decoder(keys, {}, model.spec));
  place_norms(model.spec);
  return {};
}

}  // namespace

extern const Family kOlmo2Family = {.name = "olmo2",
                                    .classes = kClasses,
                                    .read_config = read_config,
                                    .gguf_architectures = kGguf,
                                    .read_gguf = read_gguf};

}  // namespace weir::load
