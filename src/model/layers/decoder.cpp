#include "model/layers/decoder.h"

#include <functional>
#include <numeric>

#include "base/check.h"

namespace weir::model {

Decoder::Decoder(const ModelSpec& spec, Backend& backend, const ModelLimits& limits)
    : spec_(spec), backend_(backend), workspace_(spec, backend, limits.max_rows) {
  for (const load::RopeSpec& rope : spec_.ropes) {
    frequencies_.push_back(rope_frequencies(rope));
    const auto table_floats = static_cast<std::size_t>(limits.max_rows) * (rope.dims / 2);
    rope_memory_.push_back(backend.allocate(2 * table_floats * sizeof(float)));
    auto* cos = reinterpret_cast<float*>(rope_memory_.back()->data());
    rope_tables_.push_back({.cos = cos,
                            .sin = cos + table_floats,
                            .positions = limits.max_rows,
                            .dims = rope.dims,
                            .adjacent = rope.pairing == load::RopeSpec::Pairing::kAdjacent});
  }
  row_index_.resize(static_cast<std::size_t>(limits.max_rows));
  std::iota(row_index_.begin(), row_index_.end(), 0);
  logit_rows_.reserve(static_cast<std::size_t>(limits.max_rows));
  gathered_ = backend.allocate(static_cast<std::size_t>(limits.max_rows) * spec.hidden * sizeof(float));
}

Status Decoder::load_ends(Loader& loader) {
  WEIR_TRY(embedding_, loader.linear("token_embd.weight"));
  WEIR_TRY(final_norm_, loader.norm("output_norm.weight"));
  if (!spec_.tied_embeddings) {
    WEIR_TRY(head_, loader.linear("output.weight"));
  }
  return {};
}

// The tables hold this step's rows only: tables for every position of a 128k context would cost more memory than many
// models.
void Decoder::fill_rope_tables(const ForwardBatch& batch) {
  for (std::size_t r = 0; r < rope_tables_.size(); ++r) {
    const std::int64_t half = rope_tables_[r].dims / 2;
    auto* cos = reinterpret_cast<float*>(rope_memory_[r]->data());
    float* sin = cos + rope_tables_[r].positions * half;
    const RopeFrequencies& frequencies = frequencies_[r];
    const auto fill_row = [&](std::int64_t row) {
      fill_rope_row(frequencies, batch.positions[static_cast<std::size_t>(row)], cos + row * half, sin + row * half);
    };
    backend_.parallel_for(batch.rows(), std::cref(fill_row));
  }
}

void Decoder::forward(const ForwardBatch& batch, const KvView& kv) {
  CHECK(batch.rows() > 0 && batch.rows() <= workspace_.max_rows(), "rows={} max_rows={}", batch.rows(),
        workspace_.max_rows());
  fill_rope_tables(batch);
  backend_.embed(*embedding_, batch.tokens, spec_.embedding_scale, workspace_.x(batch.rows()));
  run_layers({.backend = backend_,
              .batch = batch,
              .kv = kv,
              .workspace = workspace_,
              .ropes = rope_tables_,
              .row_index = std::span(row_index_).first(static_cast<std::size_t>(batch.rows()))});
  logit_rows_.assign(batch.logit_rows.begin(), batch.logit_rows.end());
}

void Decoder::logits(std::int64_t begin, Matrix<float> out) {
  CHECK(begin >= 0 && begin + out.rows <= static_cast<std::int64_t>(logit_rows_.size()), "begin={} rows={} of {}",
        begin, out.rows, logit_rows_.size());
  const Matrix<float> rows(reinterpret_cast<float*>(gathered_->data()), out.rows, spec_.hidden);
  backend_.gather_rows(
      workspace_.x(workspace_.max_rows()),
      std::span(logit_rows_).subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(out.rows)), rows);
  const backend::LinearOutput head = {head_ ? head_.get() : embedding_.get(), nullptr, out, false};
  backend_.linear({.x = rows, .norm_weight = final_norm_.data(), .norm_eps = spec_.rms_eps, .outputs = {&head, 1}});
  if (spec_.final_softcap > 0) backend_.softcap(out, spec_.final_softcap);
}

}  // namespace weir::model
