// LatentAttention: multi-head latent attention (DeepSeek V2) with its projections absorbed: what is kept of a token is
// its latent and one rotated key for all heads; queries are turned into the latents' space, and what attention makes of
// the latents is turned into each head's values. Decoding and prefill run the same steps, so that they give the same
// bytes.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"
#include "model/layers/indexer.h"
#include "model/layers/loader.h"
#include "model/layers/step.h"

namespace weir::model {

class LatentAttention {
 public:
  // `stream`: where the layer's latents are kept, of load::kv_streams(); the next one is its indexer's, if it has one.
  static Result<LatentAttention> load(Loader& loader, int layer, int stream);

  void run(const Step& step, const Input& in, const Output& out) const;

 private:
  struct PerHead {
    std::vector<std::unique_ptr<LinearWeight>> weights;
    std::vector<const LinearWeight*> pointers;
  };
  static Result<PerHead> load_heads(Loader& loader, int layer, std::string_view name);
  void project(const Step& step, const Input& in) const;
  void attend(const Step& step, const Matrix<const std::int32_t>& selected) const;

  int layer_ = 0, stream_ = 0;
  const ModelSpec* spec_ = nullptr;
  std::unique_ptr<LinearWeight> q_, q_a_, kv_a_, o_;  // q_ reads the compressed query where there is one
  Vector q_a_bias_, kv_a_bias_, o_bias_;
  Vector q_a_norm_, kv_a_norm_;
  PerHead k_b_, v_b_;
  std::optional<Indexer> indexer_;
};

}  // namespace weir::model
