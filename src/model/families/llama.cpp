// The Llama family: Llama 1-3, Mistral, SmolLM, Qwen 2 and 3 and relatives. Pre-norm layers of attention and SwiGLU;
// what differs between them (biases, head norms, windows, RoPE scaling, tied heads) is data in ModelSpec.
#include "model/families/families.h"
#include "model/layers/attention.h"
#include "model/layers/decoder.h"
#include "model/layers/gated_mlp.h"

namespace weir::model {
namespace {

struct Layer {
  Vector attention_norm, mlp_norm;
  Attention attention;
  GatedMlp mlp;
};

class Llama final : public Decoder {
 public:
  using Decoder::Decoder;

  Status load(load::WeightSource& weights) {
    Loader loader(spec_, weights, backend_);
    WEIR_RETURN_IF_ERROR(load_ends(loader));
    for (int i = 0; i < spec_.layers; ++i) {
      Layer layer;
      WEIR_TRY(layer.attention_norm, loader.norm(fmt::format("blk.{}.attn_norm.weight", i)));
      WEIR_TRY(layer.attention, Attention::load(loader, i));
      WEIR_TRY(layer.mlp_norm, loader.norm(fmt::format("blk.{}.ffn_norm.weight", i)));
      WEIR_TRY(layer.mlp, GatedMlp::load(loader, i));
      layers_.push_back(std::move(layer));
    }
    count_bytes(loader);
    return {};
  }

 private:
  void run_layers(const Step& step) const override {
    const Matrix<float> x = step.workspace.x(step.batch.rows());
    for (const Layer& layer : layers_) {
      layer.attention.run(step, layer.attention_norm, x, /*accumulate=*/true);
      layer.mlp.run(step, layer.mlp_norm, x, /*accumulate=*/true);
    }
  }

  std::vector<Layer> layers_;
};

}  // namespace

Result<std::unique_ptr<Model>> load_llama(const ModelSpec& spec, load::WeightSource& weights, Backend& backend,
                                          const ModelLimits& limits) {
  auto model = std::make_unique<Llama>(spec, backend, limits);
  WEIR_RETURN_IF_ERROR(model->load(weights));
  return model;
}

}  // namespace weir::model
