// Phi 3 and Phi 4 mini: Llama with q, k and v in one matrix and gate and up in another; LongRoPE in the long-context
// ones.
#include "load/families/family.h"

namespace weir::load {
namespace {

constexpr Family::HfClass kClasses[] = {{"Phi3ForCausalLM", "phi3"}};
constexpr std::string_view kGguf[] = {"phi3"};
constexpr double kEps = 1e-5;

Status read_config(const JsonFields& config, ParsedModel& model) {
  WEIR_RETURN_IF_ERROR(read_hf_decoder(config, {.eps = kEps}, model.spec));
  WEIR_TRY(const int window, read_hf_window(config, 0));
  for (LayerSpec& layer : model.spec.layer) layer.window = window;
  return {};
}

void name_hf_tensors(const ModelSpec&, TensorMap& map) {
  map.fused({.file = "self_attn.qkv_proj", .parts = {"attn_q", "attn_k", "attn_v"}});
  name_hf_gate_up(map);
}

Status read_gguf(const GgufKeys& keys, ParsedModel& model) {
  WEIR_RETURN_IF_ERROR(read_gguf_decoder(keys, {}, model.spec));
  WEIR_TRY(const int window, read_gguf_window(keys));
  for (LayerSpec& layer : model.spec.layer) layer.window = window;
  return {};
}

void name_gguf_tensors(const ModelSpec&, const GgufLayout& file, TensorMap& map) {
  if (file.current("blk.0.attn_qkv.weight")) map.fused({.file = "attn_qkv", .parts = {"attn_q", "attn_k", "attn_v"}});
  name_gguf_gate_up(file, map);
}

}  // namespace

extern const Family kPhi3Family = {.name = "phi3",
                                   .classes = kClasses,
                                   .read_config = read_config,
                                   .name_hf_tensors = name_hf_tensors,
                                   .gguf_architectures = kGguf,
                                   .read_gguf = read_gguf,
                                   .name_gguf_tensors = name_gguf_tensors};

}  // namespace weir::load
