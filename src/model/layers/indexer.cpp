#include "model/layers/indexer.h"

#include <array>

namespace weir::model {
namespace {

constexpr float kNormEps = 1e-6f;  // the reference's, whatever rms_norm_eps says

}  // namespace

Result<Indexer> Indexer::load(Loader& loader, int layer, int stream) {
  const std::string prefix = fmt::format("blk.{}.indexer.", layer);
  Indexer i;
  i.stream_ = stream;
  i.spec_ = &loader.spec();
  WEIR_TRY(i.q_, loader.linear(prefix + "attn_q_b.weight"));
  WEIR_TRY(i.k_, loader.linear(prefix + "attn_k.weight"));
  WEIR_TRY(i.weights_, loader.linear(prefix + "proj.weight"));
  WEIR_TRY(i.k_norm_, loader.vector(prefix + "k_norm.weight"));
  WEIR_TRY(i.k_norm_bias_, loader.vector(prefix + "k_norm.bias"));
  return i;
}

// The reference scales scores by the roots of the number and size of heads. That scales all scores of a query by one
// positive number and chooses nothing else, so it is left out.
Matrix<const std::int32_t> Indexer::select(const Step& step, const Input& in, const Matrix<const float>& query) const {
  const load::IndexerSpec& spec = spec_->indexer;
  const Matrix<float> q = step.get(Workspace::kIndexQ), k = step.get(Workspace::kIndexK),
                      weights = step.get(Workspace::kIndexWeights);
  const std::array<backend::LinearOutput, 2> projections = {
      {{k_.get(), nullptr, k, false}, {weights_.get(), nullptr, weights, false}}};
  step.backend.linear({.x = in.x, .norm_weight = in.norm_weight, .norm_eps = in.norm_eps, .outputs = projections});
  const backend::LinearOutput queries = {q_.get(), nullptr, q, false};
  step.backend.linear({.x = query, .outputs = {&queries, 1}});
  step.backend.layer_norm(k, k_norm_.data(), k_norm_bias_.data(), kNormEps, k);
  for (const Matrix<float>& heads : {q, k}) {
    step.backend.head_norm_rope(
        {.x = heads, .head_dim = spec.head_dim, .rope = step.rope(spec.rope), .positions = step.row_index});
  }
  const backend::KvLayerView& kv = step.kv.streams[static_cast<std::size_t>(stream_)];
  const ForwardBatch::Group& group = step.group(stream_);
  step.backend.kv_write({.k = k, .v = {}, .kv = kv, .slots = group.slots});
  const Matrix<std::int32_t> positions = step.workspace.integers(Workspace::kSelected, step.batch.rows());
  const auto sequences = static_cast<std::int64_t>(step.batch.seq_lens.size());
  step.backend.select_positions({.q = q,
                                 .weights = weights,
                                 .keys = kv,
                                 .query_starts = step.batch.query_starts,
                                 .seq_lens = step.batch.seq_lens,
                                 .block_tables = {group.tables.data(), sequences, group.table_width},
                                 .positions = positions});
  return positions;
}

}  // namespace weir::model
