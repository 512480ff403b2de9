// OLMo 2. GGUF's "olmo2" is also what OLMo 3's files say they are; their window tells.
#include "load/olmo_parts.h"

namespace weir::load {
namespace {

constexpr Family::HfClass kClasses[] = {{"Olmo2ForCausalLM", "olmo2"}};
constexpr std::string_view kGguf[] = {"olmo2"};
constexpr double kEps = 1e-5;

Status read_config(const JsonFields& config, ParsedModel& model) {
  WEIR_RETURN_IF_ERROR(read_hf_decoder(config, {.eps = kEps}, model.spec));
  place_olmo_norms(model.spec);
  WEIR_RETURN_IF_ERROR(read_hf_attention_bias(config, model.biases));
  return {};
}

Status read_gguf(const GgufKeys& keys, ParsedModel& model) {
  ModelSpec& spec = model.spec;
  WEIR_RETURN_IF_ERROR(read_gguf_decoder(keys, {}, spec));
  place_olmo_norms(spec);
  WEIR_TRY(const int window, read_gguf_window(keys));
  if (window == 0) return {};
  WEIR_TRY(const auto local, read_gguf_local_layers(keys, spec.layers, kOlmoPattern));
  RopeSpec rope;  // not stretched
  rope.pairing = spec.ropes[0].pairing;
  rope.dims = spec.ropes[0].dims;
  WEIR_TRY(rope.theta, keys.number_or("rope.freq_base_swa", spec.ropes[0].theta));
  set_olmo_windows(local, window, std::move(rope), spec);
  return {};
}

}  // namespace

extern const Family kOlmo2Family = {.name = "olmo2",
                                    .classes = kClasses,
                                    .read_config = read_config,
                                    .gguf_architectures = kGguf,
                                    .read_gguf = read_gguf};

}  // namespace weir::load
