// Gemma 3 (text): as Llama with GeGLU, scaled embeddings, head norms, norms around what each branch adds, and five
// sliding-window layers to one with full attention, each kind with its own RoPE.
#include "model/families/families.h"
#include "model/layers/attention.h"
#include "model/layers/decoder.h"
#include "model/layers/gated_mlp.h"

namespace weir::model {
namespace {

struct Layer {
  Vector attention_norm, post_attention_norm, mlp_norm, post_mlp_norm;
  Attention attention;
  GatedMlp mlp;
};

class Gemma3 final : public Decoder {
 public:
  using Decoder::Decoder;

  Status load(load::WeightSource& weights) {
    Loader loader(spec_, weights, backend_);
    WEIR_RETURN_IF_ERROR(load_ends(loader));
    for (int i = 0; i < spec_.layers; ++i) {
      Layer layer;
      WEIR_TRY(layer.attention_norm, loader.norm(fmt::format("blk.{}.attn_norm.weight", i)));
      WEIR_TRY(layer.attention, Attention::load(loader, i));
      WEIR_TRY(layer.post_attention_norm, loader.norm(fmt::format("blk.{}.post_attention_norm.weight", i)));
      WEIR_TRY(layer.mlp_norm, loader.norm(fmt::format("blk.{}.ffn_norm.weight", i)));
      WEIR_TRY(layer.mlp, GatedMlp::load(loader, i));
      WEIR_TRY(layer.post_mlp_norm, loader.norm(fmt::format("blk.{}.post_ffw_norm.weight", i)));
      layers_.push_back(std::move(layer));
    }
    count_bytes(loader);
    return {};
  }

 private:
  void run_layers(const Step& step) const override {
    const Matrix<float> x = step.workspace.x(step.batch.rows());
    const Matrix<float> branch = step.workspace.branch(step.batch.rows());
    for (const Layer& layer : layers_) {
      layer.attention.run(step, layer.attention_norm, branch, /*accumulate=*/false);
      step.backend.rms_norm(branch, layer.post_attention_norm.data(), spec_.rms_eps, x, /*accumulate=*/true);
      layer.mlp.run(step, layer.mlp_norm, branch, /*accumulate=*/false);
      step.backend.rms_norm(branch, layer.post_mlp_norm.data(), spec_.rms_eps, x, /*accumulate=*/true);
    }
  }

  std::vector<Layer> layers_;
};

}  // namespace

Result<std::unique_ptr<Model>> load_gemma3(const ModelSpec& spec, load::WeightSource& weights, Backend& backend,
                                           const ModelLimits& limits) {
  auto model = std::make_unique<Gemma3>(spec, backend, limits);
  WEIR_RETURN_IF_ERROR(model->load(weights));
  return model;
}

}  // namespace weir::model
