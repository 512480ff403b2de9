// GatedMlp: down(activation(gate(norm(x))) * up(norm(x))), SwiGLU or GeGLU (Shazeer 2020).
#pragma once

#include <memory>

#include "base/result.h"
#include "model/layers/loader.h"
#include "model/layers/step.h"

namespace weir::model {

class GatedMlp {
 public:
  static Result<GatedMlp> load(Loader& loader, int layer);

  // out (+)= mlp(norm(x)). With accumulate, out is the residual stream itself.
  void run(const Step& step, const Vector& norm, Matrix<float> out, bool accumulate) const;

 private:
  const ModelSpec* spec_ = nullptr;
  std::unique_ptr<LinearWeight> gate_, up_, down_;
  Vector gate_bias_, up_bias_, down_bias_;
};

}  // namespace weir::model
