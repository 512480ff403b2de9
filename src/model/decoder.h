// Decoder: the one model behind all families. Its layers are put together from what the ModelSpec says: how tokens are
// mixed (layers/), where norms stand, whether attention and feed-forward read the same, how what they add is scaled.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "model/layers/attention.h"
#include "model/layers/delta.h"
#include "model/layers/experts.h"
#include "model/layers/gated_mlp.h"
#include "model/layers/latent.h"
#include "model/layers/loader.h"
#include "model/layers/step.h"
#include "model/model.h"
#include "model/rope_tables.h"

namespace weir::model {

class Decoder final : public Model {
 public:
  static Result<std::unique_ptr<Decoder>> load(const ModelSpec& spec, load::WeightSource& weights, Backend& backend,
                                               const ModelLimits& limits);

  void forward(const ForwardBatch& batch, const KvView& kv) override;
  void logits(std::int64_t begin, Matrix<float> out) override;
  std::int64_t weight_bytes() const override { return weight_bytes_; }

 private:
  struct Layer {
    Vector attention_norm, post_attention_norm, mlp_norm, post_mlp_norm;
    std::optional<Attention> attention;
    std::optional<LatentAttention> latent;
    std::optional<DeltaNet> delta;
    std::optional<GatedMlp> mlp;
    std::optional<Experts> experts;
  };

  Decoder(const ModelSpec& spec, Backend& backend, const ModelLimits& limits);
  Status load_weights(load::WeightSource& weights);
  Result<Layer> load_layer(Loader& loader, int index, int stream, int state);

  void fill_rope_tables(const ForwardBatch& batch);
  Input normed(const Step& step, const Vector& norm) const;
  void run_layer(const Step& step, const Layer& layer) const;
  template <class Branch>
  void add_branch(const Step& step, const Vector& post_norm, Branch&& branch) const;

  ModelSpec spec_;
  Backend& backend_;
  Workspace workspace_;
  std::unique_ptr<LinearWeight> embedding_, head_;  // head_ is null when it is the embedding
  Vector final_norm_;                               // times the logits' scale
  std::vector<Layer> layers_;
  std::int64_t weight_bytes_ = 0;

  std::vector<RopeFrequencies> frequencies_;  // one per spec_.ropes
  std::vector<std::unique_ptr<backend::Buffer>> rope_memory_;
  std::vector<backend::RopeTable> rope_tables_;
  std::vector<std::int32_t> row_index_;
  std::vector<std::int32_t> logit_rows_;       // of the last forward()
  std::unique_ptr<backend::Buffer> gathered_;  // [logits piece, hidden]
};

}  // namespace weir::model
