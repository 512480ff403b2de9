#include "load/exaone_parts.h"

#include <nlohmann/json.hpp>

namespace weir::load {
namespace {

constexpr std::int64_t kContext = 2048, kPattern = 4;
constexpr int kWindow = 4096;
constexpr double kEps = 1e-5;

void set_layers(const std::vector<bool>& local, int window, ModelSpec& spec) {
  spec.qk_norm = QkNorm::kHead;
  if (window == 0) return;
  set_windows(local, window, spec);
  for (std::size_t i = 0; i < local.size(); ++i) spec.layer[i].rope = local[i] ? 0 : -1;
}

}  // namespace

Status read_hf_exaone(const JsonFields& config, ModelSpec& spec) {
  WEIR_RETURN_IF_ERROR(read_hf_decoder(config, {.context = kContext, .eps = kEps}, spec));
  WEIR_TRY(const int window, read_hf_window(config, kWindow));
  std::int64_t pattern = kPattern;
  if (!config.has("layer_types")) {  // else it may be a word, "LLLG"
    WEIR_TRY(const auto stated, config.integer("sliding_window_pattern", kLayerRange));
    pattern = stated.value_or(kPattern);
  }
  WEIR_TRY(const auto local, read_hf_layer_types(config, spec.layers, "sliding_attention",
                                                 [&](int layer) { return (layer + 1) % pattern != 0; }));
  set_layers(local, window, spec);
  return {};
}

Status read_gguf_exaone(const GgufKeys& keys, ModelSpec& spec) {
  WEIR_RETURN_IF_ERROR(read_gguf_decoder(keys, {}, spec));
  WEIR_TRY(const int window, read_gguf_window(keys));
  WEIR_TRY(const auto local, read_gguf_local_layers(keys, spec.layers, kPattern));
  set_layers(local, window, spec);
  return {};
}

}  // namespace weir::load
