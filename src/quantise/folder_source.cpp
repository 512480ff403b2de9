// A Hugging Face folder as a GGUF file's metadata and tensors. Keys: the GGUF specification and llama.cpp's names for
// architectures.
#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "load/model_files.h"
#include "load/spec_rules.h"
#include "quantise/source_model.h"
#include "quantise/vocabulary.h"

namespace weir::quantise {
namespace {

using load::ModelSpec;
using load::RopeSpec;
using std::int64_t;

struct Architecture {
  std::string_view family;  // weir's
  std::string_view name;    // GGUF's
  bool adjacent_pairs;      // GGUF readers turn neighbouring elements of a head
};
constexpr std::array kArchitectures = {
    Architecture{"llama", "llama", true},
    Architecture{"mistral", "llama", true},
    Architecture{"qwen2", "qwen2", false},
    Architecture{"qwen3", "qwen3", false},
};

tl::unexpected<Error> cannot(const std::string& path, std::string_view what) {
  return fail(ErrorCode::kUnsupported, "{}: {}; quantize a GGUF file of the model instead", path, what);
}

Status check_convertible(const ModelSpec& spec, const std::string& path) {
  if (spec.ropes.size() != 1) return cannot(path, "layers with different rotations cannot be written as GGUF yet");
  const RopeSpec& rope = spec.ropes[0];
  const double magnitude = rope.attention_factor == 0 ? load::yarn_magnitude(rope.factor) : rope.attention_factor;
  const bool plain_yarn = rope.beta_fast == 32 && rope.beta_slow == 1 && rope.yarn_truncate &&
                          std::abs(magnitude - load::yarn_magnitude(rope.factor)) < 1e-6;
  if (rope.scaling == RopeSpec::Scaling::kYarn && !plain_yarn)
    return cannot(path, "YaRN with other parameters than its usual ones cannot be written as GGUF yet");
  for (const load::LayerSpec& layer : spec.layer) {
    if (layer.window != 0)
      return cannot(path, fmt::format("GGUF has no key for the sliding window of {} tokens of a {} model", layer.window,
                                      spec.family));
    if (layer.rope != 0) return cannot(path, "layers without position embedding cannot be written as GGUF yet");
  }
  return {};
}

void add_rope(const ModelSpec& spec, const std::string& arch, GgufMetadata& to) {
  const RopeSpec& rope = spec.ropes[0];
  to.add_u32(arch + ".rope.dimension_count", static_cast<std::uint32_t>(rope.dims));
  to.add_f32(arch + ".rope.freq_base", static_cast<float>(rope.theta));
  const bool yarn = rope.scaling == RopeSpec::Scaling::kYarn;
  if (!yarn && rope.scaling != RopeSpec::Scaling::kLinear) return;
  to.add_string(arch + ".rope.scaling.type", yarn ? "yarn" : "linear");
  to.add_f32(arch + ".rope.scaling.factor", static_cast<float>(rope.factor));
  if (yarn)
    to.add_u32(arch + ".rope.scaling.original_context_length", static_cast<std::uint32_t>(rope.original_context));
}

void add_sizes(const ModelSpec& spec, const std::string& arch, GgufMetadata& to) {
  const auto u32 = [&](std::string_view key, int64_t value) {
    to.add_u32(fmt::format("{}.{}", arch, key), static_cast<std::uint32_t>(value));
  };
  u32("block_count", spec.layers);
  u32("context_length", spec.context_length);
  u32("embedding_length", spec.hidden);
  u32("feed_forward_length", spec.ffn);
  u32("attention.head_count", spec.heads);
  u32("attention.head_count_kv", spec.kv_heads);
  u32("attention.key_length", spec.head_dim);
  u32("attention.value_length", spec.head_dim);
  u32("vocab_size", spec.vocab);
  to.add_f32(arch + ".attention.layer_norm_rms_epsilon", spec.rms_eps);
}

// What Llama 3 divides each frequency by (Llama 3.1's reference code): nothing for short waves, the factor for long
// ones, and between them what leads smoothly from one to the other.
std::vector<float> llama3_divisors(const RopeSpec& rope) {
  std::vector<float> divisors;
  const auto context = static_cast<double>(rope.original_context);
  for (int i = 0; i < rope.dims / 2; ++i) {
    const double wave = 2 * std::numbers::pi * std::pow(rope.theta, 2.0 * i / rope.dims);
    const double smooth = (context / wave - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor);
    const double within = std::clamp(smooth, 0.0, 1.0);
    divisors.push_back(static_cast<float>(1 / ((1 - within) / rope.factor + within)));
  }
  return divisors;
}

// Rows of q or k from halves of a head to neighbours: output row 2i of a head is its row i, 2i + 1 its row i + dim / 2.
std::function<int64_t(int64_t)> neighbours(int64_t head_dim) {
  return [head_dim](int64_t row) {
    const int64_t head = row / head_dim, at = row % head_dim;
    return head * head_dim + at / 2 + at % 2 * (head_dim / 2);
  };
}

bool is_query_or_key(std::string_view name) {
  return name.ends_with(".attn_q.weight") || name.ends_with(".attn_k.weight") || name.ends_with(".attn_q.bias") ||
         name.ends_with(".attn_k.bias");
}

struct Folder {
  load::ModelFiles files;
  std::vector<float> divisors;
  std::vector<std::vector<std::byte>> made;
};

}  // namespace

Result<SourceModel> source_from_folder(const std::string& path) {
  auto folder = std::make_shared<Folder>();
  WEIR_TRY(folder->files, load::open_model(path));
  const ModelSpec& spec = folder->files.spec;
  const auto* arch = std::ranges::find(kArchitectures, spec.family, &Architecture::family);
  if (arch == kArchitectures.end())
    return cannot(path, fmt::format("a {} model cannot be written as GGUF yet", spec.family));
  WEIR_RETURN_IF_ERROR(check_convertible(spec, path));

  SourceModel model;
  model.layers = spec.layers;
  model.queries_per_kv_head = spec.heads / spec.kv_heads;
  const std::string name(arch->name);
  model.metadata.add_string("general.architecture", name);
  model.metadata.add_string("general.type", "model");
  model.metadata.add_string("general.name", spec.name);
  add_sizes(spec, name, model.metadata);
  add_rope(spec, name, model.metadata);
  WEIR_TRY(model.note, add_vocabulary(folder->files, spec.vocab, model.metadata));

  const RopeSpec& rope = spec.ropes[0];
  if (rope.scaling == RopeSpec::Scaling::kLlama3) {
    folder->divisors = llama3_divisors(rope);
    model.tensors.push_back(
        {"rope_freqs.weight", tensor::DType::kF32, {rope.dims / 2}, std::as_bytes(std::span(folder->divisors))});
  }
  const bool permute = arch->adjacent_pairs && rope.pairing == RopeSpec::Pairing::kHalves;
  for (const load::Weight& weight : folder->files.weights->all()) {
    if (spec.tied_embeddings && weight.name == "output.weight") continue;
    SourceTensor tensor = {.name = weight.name, .dtype = weight.dtype, .shape = weight.shape, .weight = &weight};
    if (permute && is_query_or_key(weight.name)) {
      if (rope.dims != spec.head_dim) return cannot(path, "heads that are turned in part cannot be written yet");
      if (weight.shape.size() == 1) {  // a short vector: turned here
        const auto order = neighbours(spec.head_dim);
        const int64_t size = tensor::row_bytes(weight.dtype, 1);
        WEIR_TRY(const load::WeightBytes bytes, folder->files.weights->read(weight));
        std::vector<std::byte>& turned = folder->made.emplace_back(bytes.data.size());
        for (int64_t i = 0; i < weight.shape[0]; ++i)
          std::copy_n(bytes.data.data() + order(i) * size, size, turned.data() + i * size);
        tensor.data = turned;
        tensor.weight = nullptr;
      } else {
        tensor.order = neighbours(spec.head_dim);
      }
    }
    model.tensors.push_back(std::move(tensor));
  }
  model.read = [folder](const SourceTensor& tensor) -> Result<load::WeightBytes> {
    if (tensor.weight == nullptr) return {{tensor.data, nullptr}};
    return folder->files.weights->read(*tensor.weight);
  };
  model.release = [folder](std::span<const std::byte> bytes) { folder->files.weights->release(bytes); };
  model.owner = folder;
  return model;
}

}  // namespace weir::quantise
