// DeltaNet: a gated delta net (Yang et al. 2024; Qwen3-Next): what it keeps of a sequence is a matrix per value head
// and the convolution's last inputs, whatever the sequence's length.
#pragma once

#include <memory>

#include "base/result.h"
#include "model/layers/loader.h"
#include "model/layers/step.h"

namespace weir::model {

class DeltaNet {
 public:
  // `index`: of the layer among those of its kind; its state is so many states into a sequence's.
  static Result<DeltaNet> load(Loader& loader, int layer, int index);

  void run(const Step& step, const Input& in, const Output& out) const;

 private:
  const ModelSpec* spec_ = nullptr;
  std::int64_t state_offset_ = 0;
  std::unique_ptr<LinearWeight> q_, k_, v_, z_, beta_, alpha_, out_;
  Vector taps_, decay_, dt_, norm_;
};

}  // namespace weir::model
