// EXAONE 4: norms of what each branch adds, head norms, and, in the hybrid models, three windowed layers to one that
// sees everything and has no position embedding.
#include "load/families/family.h"

namespace weir::load {
namespace {

constexpr Family::HfClass kClasses[] = {{"Exaone4ForCausalLM", "exaone4"}};
constexpr std::string_view kGguf[] = {"exaone4"};
constexpr std::int64_t kContext = 2048, kPattern = 4;
constexpr int kWindow = 4096;
constexpr double kEps = 1e-5;

void place_norms(ModelSpec& spec) {
  spec.pre_norms = false;
  spec.post_norms = true;
  spec.qk_norm = QkNorm::kHead;
}

void set_layers(const std::vector<bool>& local, int window, ModelSpec& spec) {
  if (window == 0) return;
  set_windows(local, window, spec);
  for (std::size_t i = 0; i < local.size(); ++i) spec.layer[i].rope = local[i] ? 0 : -1;
}

Status read_config(const JsonFields& config, ParsedModel& model) {
  ModelSpec& spec = model.spec;
  WEIR_RETURN_IF_ERROR(read_hf_decoder(config, {.context = kContext, .eps = kEps}, spec));
  place_norms(spec);
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

Status read_gguf(const GgufKeys& keys, ParsedModel& model) {
  WEIR_RETURN_IF_ERROR(read_gguf_decoder(keys, {}, model.spec));
  place_norms(model.spec);
  WEIR_TRY(const int window, read_gguf_window(keys));
  WEIR_TRY(const auto local, read_gguf_local_layers(keys, model.spec.layers, kPattern));
  set_layers(local, window, model.spec);
  return {};
}

}  // namespace

extern const Family kExaone4Family = {.name = "exaone4",
                                      .classes = kClasses,
                                      .read_config = read_config,
                                      .gguf_architectures = kGguf,
                                      .read_gguf = read_gguf};

}  // namespace weir::load
