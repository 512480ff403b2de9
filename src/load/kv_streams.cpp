#include "load/kv_streams.h"

namespace weir::load {

std::vector<KvStream> kv_streams(const ModelSpec& spec) {
  std::vector<KvStream> streams;
  for (std::size_t index = 0; index < spec.layer.size(); ++index) {
    const LayerSpec& layer = spec.layer[index];
    const int i = static_cast<int>(index);
    switch (layer.mixer) {
      case Mixer::kAttention:
        streams.push_back({.layer = i,
                           .window = layer.window,
                           .heads = spec.kv_heads,
                           .key_dim = spec.head_dim,
                           .value_dim = spec.head_dim});
        break;
      case Mixer::kLatent:
        streams.push_back({.layer = i,
                           .window = layer.window,
                           .heads = 1,
                           .key_dim = spec.latent.rank + spec.latent.rope_dim,
                           .value_dim_in_keys = spec.latent.rank});
        if (spec.indexer.heads > 0) {
          streams.push_back({.layer = i, .role = KvStream::Role::kIndex, .heads = 1, .key_dim = spec.indexer.head_dim});
        }
        break;
      case Mixer::kDelta:
        break;
    }
  }
  return streams;
}

std::int64_t state_bytes(const ModelSpec& spec) {
  std::int64_t layers = 0;
  for (const LayerSpec& layer : spec.layer) layers += layer.mixer == Mixer::kDelta;
  return layers * spec.delta.state_floats() * static_cast<std::int64_t>(sizeof(float));
}

}  // namespace weir::load
