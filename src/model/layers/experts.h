// Experts: a mixture of experts (Shazeer et al. 2017): a router chooses some per token and weighs what they make; one
// more may be shared by all tokens.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"
#include "model/layers/gated_mlp.h"
#include "model/layers/loader.h"
#include "model/layers/step.h"

namespace weir::model {

class Experts {
 public:
  static Result<Experts> load(Loader& loader, int layer);

  void run(const Step& step, const Input& in, const Output& out) const;

 private:
  // One projection of every expert.
  struct Projection {
    std::vector<std::unique_ptr<LinearWeight>> weights;
    std::vector<const LinearWeight*> pointers;
    Vector bias;  // [experts, rows] or empty
    backend::ExpertWeights view() const { return {.weights = pointers, .bias = bias.data()}; }
  };
  static Result<Projection> load_projection(Loader& loader, int layer, std::string_view name);
  void add_shared(const Step& step, const Input& in, const Matrix<float>& to) const;

  const ModelSpec* spec_ = nullptr;
  std::unique_ptr<LinearWeight> router_, shared_gate_;
  Vector router_bias_, correction_;
  Projection gate_, up_, down_;
  std::optional<GatedMlp> shared_;
};

}  // namespace weir::model
