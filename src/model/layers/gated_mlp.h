// GatedMlp: down(activation(gate(x)) * up(x)), SwiGLU or GeGLU (Shazeer 2020).
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "model/layers/loader.h"
#include "model/layers/step.h"

namespace weir::model {

backend::Activation activation_of(const ModelSpec& spec);
backend::SwigluLimits swiglu_of(const ModelSpec& spec);

class GatedMlp {
 public:
  // `ending`: "" of a layer's own, "_shexp" of the expert that all tokens share.
  static Result<GatedMlp> load(Loader& loader, int layer, const std::string& ending = "");

  void run(const Step& step, const Input& in, const Output& out) const;

 private:
  backend::Activation activation_ = backend::Activation::kSilu;
  backend::SwigluLimits swiglu_;
  std::unique_ptr<LinearWeight> gate_, up_, down_;
  Vector gate_bias_, up_bias_, down_bias_;
};

}  // namespace weir::model
