// What families read from a GGUF file in the same way. Key names and defaults: the GGUF specification and what
// llama.cpp's converter writes.
#pragma once

#include <vector>

#include "load/gguf_keys.h"
#include "load/model_spec.h"
#include "load/spec_rules.h"
#include "load/tensor_map.h"

namespace weir::load {

struct GgufDefaults {
  RopeSpec::Pairing pairing = RopeSpec::Pairing::kHalves;
  const char* eps_key = "attention.layer_norm_rms_epsilon";
};

// Sizes, vocabulary, norm epsilon, scales, softcaps, spec.ropes[0], whether the head is tied, and `layers` layers of
// full attention.
Status read_gguf_decoder(const GgufKeys& keys, const GgufDefaults& defaults, ModelSpec& spec);

// Layers that see only "attention.sliding_window" tokens: by the pattern in the file, or every one but each
// `otherwise`-th. All false without a window.
Result<std::vector<bool>> read_gguf_local_layers(const GgufKeys& keys, int layers, std::int64_t otherwise);
Result<int> read_gguf_window(const GgufKeys& keys);

// Experts, if the file has any: their router, shared ones, and dense first layers.
Status read_gguf_experts(const GgufKeys& keys, ModelSpec& spec);
// What a family's files do not say.
struct GgufRouter {
  bool normalise = false;
  RouterSpec::Scores scores = RouterSpec::Scores::kSoftmax;
};
void set_gguf_router_defaults(const GgufKeys& keys, const GgufRouter& defaults, ModelSpec& spec);
// Experts with DeepSeek V3's router: sigmoid with a correction. `normalise`: where the file does not say.
Status read_gguf_corrected_experts(const GgufKeys& keys, bool normalise, ModelSpec& spec);

// How a file lays its tensors out, where converters have differed over time: told by names that only some wrote. A file
// that is yet to be written (null) is laid out as llama.cpp's converter does it now.
class GgufLayout {
 public:
  explicit GgufLayout(const GgufFile* file) : file_(file) {}
  bool older(std::string_view name) const { return file_ != nullptr && has_tensor(*file_, name); }
  bool current(std::string_view name) const { return file_ == nullptr || has_tensor(*file_, name); }

 private:
  const GgufFile* file_;
};

// The norm before the feed-forward part as llama.cpp calls it for many an architecture: all of a family's
// name_gguf_tensors.
void name_gguf_post_attention_norm(const ModelSpec& spec, const GgufLayout& file, TensorMap& map);
// Gate and up in one matrix, but for files of older converters.
void name_gguf_gate_up(const GgufLayout& file, TensorMap& map);

// GGUF's own names are the canonical ones, but experts are stacked.
TensorMap gguf_tensor_map(const ModelSpec& spec, const GgufLayout& file);

}  // namespace weir::load
