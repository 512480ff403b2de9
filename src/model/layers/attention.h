// Attention: MHA, GQA or MQA with optional biases, norms of q and k, RoPE, a sliding window, sinks and an output gate;
// over paged KV.
#pragma once

#include <memory>

#include "base/result.h"
#include "model/layers/loader.h"
#include "model/layers/step.h"

namespace weir::model {

class Attention {
 public:
  // `stream`: where the layer's keys and values are kept, of load::kv_streams().
  static Result<Attention> load(Loader& loader, int layer, int stream);

  void run(const Step& step, const Input& in, const Output& out) const;

 private:
  void norm_and_turn(const Step& step, Matrix<float> heads, const Vector& norm, int rope) const;

  int layer_ = 0, stream_ = 0;
  const ModelSpec* spec_ = nullptr;
  std::unique_ptr<LinearWeight> q_, k_, v_, o_, gate_;
  Vector q_bias_, k_bias_, v_bias_, o_bias_, gate_bias_;
  Vector q_norm_, k_norm_;
  Vector sinks_;
};

}  // namespace weir::model
