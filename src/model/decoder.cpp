#include "model/decoder.h"

#include <functional>
#include <numeric>

#include "base/check.h"
#include "load/kv_streams.h"

namespace weir::model {
namespace {

// The scorer reads keys in whole vectors; every published model keeps to it.
Status check_indexer(const load::IndexerSpec& indexer) {
  if (indexer.head_dim == load::stored_dim(indexer.head_dim)) return {};
  return fail_at("index_head_dim", ErrorCode::kUnsupported,
                 "the indexer's heads have {} dimensions; a multiple of 8 is supported", indexer.head_dim);
}

}  // namespace

Result<std::unique_ptr<Model>> Model::load(const ModelSpec& spec, load::WeightSource& weights, Backend& backend,
                                           const ModelLimits& limits) {
  return Decoder::load(spec, weights, backend, limits);
}

Result<std::unique_ptr<Decoder>> Decoder::load(const ModelSpec& spec, load::WeightSource& weights, Backend& backend,
                                               const ModelLimits& limits) {
  WEIR_RETURN_IF_ERROR(check_indexer(spec.indexer));
  std::unique_ptr<Decoder> decoder(new Decoder(spec, backend, limits));
  WEIR_RETURN_IF_ERROR(decoder->load_weights(weights));
  return decoder;
}

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

std::vector<backend::BufferUse> Model::step_buffers(const ModelSpec& spec, const ModelLimits& limits, std::int64_t rows,
                                                    std::int64_t logit_rows) {
  std::vector<backend::BufferUse> out;
  const auto add = [&](std::int64_t width, std::int64_t used_rows) {
    const auto bytes = [width](std::int64_t count) { return static_cast<std::size_t>(count * width) * sizeof(float); };
    out.push_back({bytes(limits.max_rows), bytes(std::min(used_rows, limits.max_rows))});
  };
  for (const std::int64_t width : Workspace::widths(spec)) add(width, rows);
  for (const load::RopeSpec& rope : spec.ropes) {
    for (int table = 0; table < 2; ++table) add(rope.dims / 2, rows);
  }
  add(spec.hidden, logit_rows);
  return out;
}

// Embedding and head first: while a tensor is packed it is in memory twice, and these are the largest.
Status Decoder::load_weights(load::WeightSource& weights) {
  Loader loader(spec_, weights, backend_);
  WEIR_TRY(embedding_, loader.linear("token_embd.weight"));
  WEIR_TRY(final_norm_, loader.norm("output_norm.weight", spec_.logit_scale));
  if (!spec_.tied_embeddings) {
    WEIR_TRY(head_, loader.linear("output.weight"));
  }
  std::vector<int> stream(static_cast<std::size_t>(spec_.layers), -1);
  const auto streams = load::kv_streams(spec_);
  for (std::size_t i = 0; i < streams.size(); ++i) {
    if (streams[i].role == load::KvStream::Role::kMain)
      stream[static_cast<std::size_t>(streams[i].layer)] = static_cast<int>(i);
  }
  int states = 0;  // layers with recurrent state so far
  for (int i = 0; i < spec_.layers; ++i) {
    WEIR_TRY(Layer layer, load_layer(loader, i, stream[static_cast<std::size_t>(i)], states));
    states += layer.delta.has_value();
    layers_.push_back(std::move(layer));
  }
  weight_bytes_ = loader.bytes();
  return {};
}

Result<Decoder::Layer> Decoder::load_layer(Loader& loader, int index, int stream, int state) {
  const auto name = [&](std::string_view part) { return fmt::format("blk.{}.{}.weight", index, part); };
  Layer layer;
  if (spec_.pre_norms) {
    WEIR_TRY(layer.attention_norm, loader.norm(name("attn_norm")));
  }
  switch (spec_.layer[static_cast<std::size_t>(index)].mixer) {
    case load::Mixer::kAttention: {
      WEIR_TRY(layer.attention, Attention::load(loader, index, stream));
      break;
    }
    case load::Mixer::kLatent: {
      WEIR_TRY(layer.latent, LatentAttention::load(loader, index, stream));
      break;
    }
    case load::Mixer::kDelta: {
      WEIR_TRY(layer.delta, DeltaNet::load(loader, index, state));
      break;
    }
  }
  if (spec_.post_norms) {
    WEIR_TRY(layer.post_attention_norm, loader.norm(name("post_attention_norm")));
  }
  if (spec_.pre_norms && !spec_.parallel) {
    WEIR_TRY(layer.mlp_norm, loader.norm(name("ffn_norm")));
  }
  if (spec_.layer[static_cast<std::size_t>(index)].sparse) {
    WEIR_TRY(layer.experts, Experts::load(loader, index));
  } else {
    WEIR_TRY(layer.mlp, GatedMlp::load(loader, index));
  }
  if (spec_.post_norms) {
    WEIR_TRY(layer.post_mlp_norm, loader.norm(name("post_ffw_norm")));
  }
  return layer;
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
      const auto r = static_cast<std::size_t>(row);
      fill_rope_row(frequencies, batch.positions[r], batch.known[r], cos + row * half, sin + row * half);
    };
    backend_.parallel_for(batch.rows(), std::cref(fill_row));
  }
}

// What a branch reads. RMSNorm is left to the linear layer that reads it.
Input Decoder::normed(const Step& step, const Vector& norm) const {
  const Matrix<float> x = step.get(Workspace::kX);
  if (norm.data() == nullptr) return {.x = x};
  if (spec_.norm == load::NormKind::kRms) return {.x = x, .norm_weight = norm.data(), .norm_eps = spec_.rms_eps};
  const Matrix<float> out = step.get(Workspace::kNormed);
  step.backend.layer_norm(x, norm.data(), nullptr, spec_.rms_eps, out);
  return {.x = out};
}

// Adds what the branch makes to the residual stream.
template <class Branch>
void Decoder::add_branch(const Step& step, const Vector& post_norm, Branch&& branch) const {
  const Matrix<float> x = step.get(Workspace::kX);
  if (post_norm.data() == nullptr && spec_.residual_scale == 1.0f) return branch(Output{x, /*accumulate=*/true});
  const Matrix<float> made = step.get(Workspace::kBranch);
  branch(Output{made, /*accumulate=*/false});
  if (post_norm.data() == nullptr) return step.backend.add({.from = made, .scale = spec_.residual_scale, .to = x});
  step.backend.rms_norm(made, post_norm.data(), spec_.rms_eps, x, /*accumulate=*/true);
}

void Decoder::run_layer(const Step& step, const Layer& layer) const {
  const Input in = normed(step, layer.attention_norm);
  add_branch(step, layer.post_attention_norm, [&](const Output& out) {
    if (layer.latent) return layer.latent->run(step, in, out);
    if (layer.delta) return layer.delta->run(step, in, out);
    layer.attention->run(step, in, out);
  });
  const Input mlp_in = spec_.parallel ? in : normed(step, layer.mlp_norm);
  add_branch(step, layer.post_mlp_norm, [&](const Output& out) {
    if (layer.experts) return layer.experts->run(step, mlp_in, out);
    layer.mlp->run(step, mlp_in, out);
  });
}

void Decoder::forward(const ForwardBatch& batch, const KvView& kv) {
  CHECK(batch.rows() > 0 && batch.rows() <= workspace_.max_rows(), "rows={} max_rows={}", batch.rows(),
        workspace_.max_rows());
  fill_rope_tables(batch);
  const Step step = {.backend = backend_,
                     .batch = batch,
                     .kv = kv,
                     .workspace = workspace_,
                     .ropes = rope_tables_,
                     .row_index = std::span(row_index_).first(static_cast<std::size_t>(batch.rows()))};
  backend_.embed(*embedding_, batch.tokens, spec_.embedding_scale, step.get(Workspace::kX));
  for (const Layer& layer : layers_) run_layer(step, layer);
  logit_rows_.assign(batch.logit_rows.begin(), batch.logit_rows.end());
}

void Decoder::logits(std::int64_t begin, Matrix<float> out) {
  CHECK(begin >= 0 && begin + out.rows <= static_cast<std::int64_t>(logit_rows_.size()), "begin={} rows={} of {}",
        begin, out.rows, logit_rows_.size());
  const Matrix<float> rows(reinterpret_cast<float*>(gathered_->data()), out.rows, spec_.hidden);
  backend_.gather_rows(
      workspace_.get(Workspace::kX, workspace_.max_rows()),
      std::span(logit_rows_).subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(out.rows)), rows);
  const backend::LinearOutput head = {head_ ? head_.get() : embedding_.get(), nullptr, out, false};
  const bool rms = spec_.norm == load::NormKind::kRms;
  if (!rms) backend_.layer_norm(rows, final_norm_.data(), nullptr, spec_.rms_eps, rows);
  backend_.linear(
      {.x = rows, .norm_weight = rms ? final_norm_.data() : nullptr, .norm_eps = spec_.rms_eps, .outputs = {&head, 1}});
  if (spec_.final_softcap > 0) backend_.softcap(out, spec_.final_softcap);
}

}  // namespace weir::model
