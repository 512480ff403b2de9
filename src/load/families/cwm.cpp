// CWM (Code World Model): Llama with a sliding window in three of four layers.
#include "load/families/family.h"

namespace weir::load {
namespace {

constexpr Family::HfClass kClasses[] = {{"CwmForCausalLM", "cwm"}};
constexpr int kHeadDim = 128, kWindow = 8192;
constexpr std::int64_t kContext = 131072, kPattern = 4;
constexpr double kTheta = 1'000'000.0, kEps = 1e-5;

Status read_config(const JsonFields& config, ParsedModel& model) {
  WEIR_RETURN_IF_ERROR(
      read_hf_decoder(config, {.head_dim = kHeadDim, .context = kContext, .theta = kTheta, .eps = kEps}, model.spec));
  WEIR_TRY(model.biases.ffn, read_hf_bias(config, "mlp_bias"));
  WEIR_TRY(const int window, read_hf_window(config, kWindow));
  WEIR_TRY(const auto local, read_hf_layer_types(config, model.spec.layers, "sliding_attention",
                                                 [](int layer) { return layer % kPattern != 0; }));
  set_windows(local, window, model.spec);
  return {};
}

}  // namespace

extern const Family kCwmFamily = {.name = "cwm", .classes = kClasses, .read_config = read_config};

}  // namespace weir::load
