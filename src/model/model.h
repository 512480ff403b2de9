// Model: token rows in, logits out, over any backend. One decoder runs all families (decoder.h): its layers (layers/)
// are put together as the ModelSpec says.
//
// forward() runs the whole stack for one step and keeps the hidden states of batch.logit_rows; logits() then multiplies
// any run of them with the output head. Two calls, because the logits of a step may be far larger than everything else
// (512 prompt rows of a 262k vocabulary are 537 MB): the caller takes them in pieces it has room for. Threads: engine
// thread. Nothing allocates after load() beyond what the backend's first calls do.
#pragma once

#include <memory>
#include <span>

#include "backend/backend.h"
#include "base/result.h"
#include "kv/kv_layout.h"
#include "load/model_spec.h"
#include "load/weight_source.h"
#include "model/forward_batch.h"

namespace weir::model {

struct ModelLimits {
  std::int64_t max_rows = 0;  // tokens per step
};

// The KV cache as the model sees it: each stream's slice of the arena, and the group whose tables and slots lead into
// it.
struct KvView {
  std::vector<backend::KvLayerView> streams;  // as load::kv_streams() lists them
  std::vector<int> group;                     // by stream
  // Recurrent state lies in whole blocks of the arena, one sequence's after another.
  std::byte* state_base = nullptr;  // of block 0
  std::int64_t block_bytes = 0;
};

class Model {
 public:
  virtual ~Model() = default;
  // Packs every weight into the backend, letting go of the file's pages as it goes.
  // Errors: kUnsupported for sizes that attention cannot take, kCorruptFile for tensors that are not there.
  static Result<std::unique_ptr<Model>> load(const load::ModelSpec& spec, load::WeightSource& weights,
                                             backend::Backend& backend, const ModelLimits& limits);

  // Buffers that a step of `rows` rows writes, `logit_rows` of them to the head at once, beside logits, KV and what the
  // backend keeps.
  static std::vector<backend::BufferUse> step_buffers(const load::ModelSpec& spec, const ModelLimits& limits,
                                                      std::int64_t rows, std::int64_t logit_rows);

  virtual void forward(const ForwardBatch& batch, const KvView& kv) = 0;
  // Logits of batch.logit_rows[begin .. begin + out.rows) of the last forward(). out is [rows, vocab].
  virtual void logits(std::int64_t begin, tensor::Matrix<float> out) = 0;
  virtual std::int64_t weight_bytes() const = 0;
};

}  // namespace weir::model
