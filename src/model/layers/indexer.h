// Indexer: the small scorer of DeepSeek V3.2 that chooses the positions a query attends to. It keeps a key of every
// token in a stream of its own.
#pragma once

#include <memory>

#include "base/result.h"
#include "model/layers/loader.h"
#include "model/layers/step.h"

namespace weir::model {

class Indexer {
 public:
  // `stream`: where its keys are kept, of load::kv_streams().
  static Result<Indexer> load(Loader& loader, int layer, int stream);

  // `query`: the compressed and normed query of each row.
  Matrix<const std::int32_t> select(const Step& step, const Input& in, const Matrix<const float>& query) const;

 private:
  int stream_ = 0;
  const ModelSpec* spec_ = nullptr;
  std::unique_ptr<LinearWeight> q_, k_, weights_;
  Vector k_norm_, k_norm_bias_;
};

}  // namespace weir::model
