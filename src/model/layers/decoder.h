// Decoder: what all decoder-only models share around their layers: embedding, RoPE tables of the step, final norm and
// output head.
//
// A family derives from it, loads its layers and runs them in run_layers().
#pragma once

#include <memory>
#include <vector>

#include "model/layers/loader.h"
#include "model/layers/step.h"
#include "model/model.h"
#include "model/rope_tables.h"

namespace weir::model {

class Decoder : public Model {
 public:
  Decoder(const ModelSpec& spec, Backend& backend, const ModelLimits& limits);

  void forward(const ForwardBatch& batch, const KvView& kv) final;
  void logits(std::int64_t begin, Matrix<float> out) final;
  std::int64_t weight_bytes() const final { return weight_bytes_; }

 protected:
  // Embedding, final norm and head. To be loaded first: while a tensor is packed it is in memory twice, and these are
  // the largest.
  Status load_ends(Loader& loader);
  void count_bytes(const Loader& loader) { weight_bytes_ = loader.bytes(); }
  virtual void run_layers(const Step& step) const = 0;

  ModelSpec spec_;
  Backend& backend_;

 private:
  void fill_rope_tables(const ForwardBatch& batch);

  Workspace workspace_;
  std::unique_ptr<LinearWeight> embedding_, head_;  // head_ is null when it is the embedding
  Vector final_norm_;
  std::int64_t weight_bytes_ = 0;

  std::vector<RopeFrequencies> frequencies_;  // one per spec_.ropes
  std::vector<std::unique_ptr<backend::Buffer>> rope_memory_;
  std::vector<backend::RopeTable> rope_tables_;
  std::vector<std::int32_t> row_index_;
  std::vector<std::int32_t> logit_rows_;       // of the last forward()
  std::unique_ptr<backend::Buffer> gathered_;  // [logits piece, hidden]
};

}  // namespace weir::model
