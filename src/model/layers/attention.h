// Attention: MHA, GQA or MQA with optional biases, per-head norms, RoPE and a sliding window; over paged KV.
#pragma once

#include <memory>

#include "base/result.h"
#include "model/layers/loader.h"
#include "model/layers/step.h"

namespace weir::model {

class Attention {
 public:
  static Result<Attention> load(Loader& loader, int layer);

  // out (+)= W_o attention(norm(x)). With accumulate, out is the residual stream itself.
  void run(const Step& step, const Vector& norm, Matrix<float> out, bool accumulate) const;

 private:
  int layer_ = 0;
  const ModelSpec* spec_ = nullptr;
  std::unique_ptr<LinearWeight> q_, k_, v_, o_;
  Vector q_bias_, k_bias_, v_bias_, o_bias_;
  Vector q_norm_, k_norm_;
};

}  // namespace weir::model
