#include "load/gguf_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "load/limits.h"

namespace weir::load {
namespace {

constexpr std::array<std::string_view, 4> kArchitectures = {"llama", "qwen2", "qwen3", "gemma3"};

// Gemma 3's defaults where the file has no key: every sixth layer is global; local layers rotate with base 10000.
constexpr std::int64_t kGemmaPattern = 6;
constexpr double kDefaultTheta = 10000.0;
// Gemma 3 27B alone scales by hidden / heads instead of head_dim; its files have no key that says so.
constexpr int kGemma27BLayers = 62;

struct Describe {
  std::string operator()(std::int64_t v) const { return fmt::format("{}", v); }
  std::string operator()(double v) const { return fmt::format("{}", v); }
  std::string operator()(bool v) const { return v ? "true" : "false"; }
  std::string operator()(const std::string&) const { return "a string"; }
  template <class T>
  std::string operator()(const std::vector<T>& array) const {
    return fmt::format("an array of {}", array.size());
  }
};

std::string describe(const GgufValue& value) {
  return std::visit(Describe{}, value);
}

// The hyper-parameters "<architecture>.KEY".
class Keys {
 public:
  Keys(const GgufFile& gguf, std::string architecture, const std::string& file)
      : gguf_(gguf), architecture_(std::move(architecture)), file_(file) {}

  const GgufValue* find(std::string_view key) const {
    const auto found = gguf_.metadata().find(full(key));
    return found == gguf_.metadata().end() ? nullptr : &found->second;
  }

  Result<std::optional<std::int64_t>> integer(std::string_view key, Range range) const {
    const GgufValue* value = find(key);
    if (value == nullptr) return std::nullopt;
    // An array has one number per layer (GGUF allows it for heads and FFN sizes); weir's families want them equal.
    std::optional<std::int64_t> number;
    if (const auto* scalar = std::get_if<std::int64_t>(value)) number = *scalar;
    if (const auto* array = std::get_if<std::vector<std::int64_t>>(value); array != nullptr && !array->empty()) {
      if (std::ranges::adjacent_find(*array, std::not_equal_to{}) != array->end()) {
        return fail_at(full(key), ErrorCode::kUnsupported, "{}: \"{}\" differs between layers, which is not supported",
                       file_, full(key));
      }
      number = array->front();
    }
    if (!number || *number < range.low || *number > range.high) {
      return fail_at(full(key), ErrorCode::kCorruptFile, "{}: \"{}\" is {}; an integer from {} to {} expected", file_,
                     full(key), number ? fmt::format("{}", *number) : describe(*value), range.low, range.high);
    }
    return number;
  }

  Result<std::int64_t> required(std::string_view key, Range range) const {
    WEIR_TRY(const auto value, integer(key, range));
    if (!value)
      return fail_at(full(key), ErrorCode::kCorruptFile, "{}: metadata key \"{}\" is missing", file_, full(key));
    return *value;
  }

  Result<std::optional<double>> number(std::string_view key) const {
    const GgufValue* value = find(key);
    if (value == nullptr) return std::nullopt;
    const auto number = gguf_.get_double(full(key));
    if (!number || !std::isfinite(*number)) {
      return fail_at(full(key), ErrorCode::kCorruptFile, "{}: \"{}\" is {}; a number expected", file_, full(key),
                     describe(*value));
    }
    return number;
  }

  Result<double> number_or(std::string_view key, double otherwise) const {
    WEIR_TRY(const auto value, number(key));
    return value.value_or(otherwise);
  }

  std::string full(std::string_view key) const { return fmt::format("{}.{}", architecture_, key); }
  const std::string& file() const { return file_; }
  const GgufFile& gguf() const { return gguf_; }
  const std::string& architecture() const { return architecture_; }

 private:
  const GgufFile& gguf_;
  std::string architecture_;
  const std::string& file_;
};

Status read_sizes(const Keys& keys, ModelSpec& spec) {
  WEIR_TRY(spec.layers, keys.required("block_count", kLayerRange));
  WEIR_TRY(spec.hidden, keys.required("embedding_length", kHiddenRange));
  WEIR_TRY(spec.heads, keys.required("attention.head_count", kHeadRange));
  WEIR_TRY(spec.ffn, keys.required("feed_forward_length", kFfnRange));
  WEIR_TRY(spec.context_length, keys.required("context_length", kContextRange));
  WEIR_TRY(const auto kv_heads, keys.integer("attention.head_count_kv", kHeadRange));
  spec.kv_heads = static_cast<int>(kv_heads.value_or(spec.heads));
  WEIR_TRY(const auto head_dim, keys.integer("attention.key_length", kHeadDimRange));
  if (!head_dim && (spec.hidden % spec.heads != 0 || spec.hidden / spec.heads > kHeadDimRange.high)) {
    return fail(ErrorCode::kCorruptFile, "{}: embedding_length {} cannot be split into {} heads of up to {}",
                keys.file(), spec.hidden, spec.heads, kHeadDimRange.high);
  }
  spec.head_dim = static_cast<int>(head_dim ? *head_dim : spec.hidden / spec.heads);
  WEIR_TRY(const auto value_dim, keys.integer("attention.value_length", kHeadDimRange));
  if (value_dim.value_or(spec.head_dim) != spec.head_dim) {
    return fail(ErrorCode::kUnsupported, "{}: key_length {} and value_length {} differ, which is not supported",
                keys.file(), spec.head_dim, *value_dim);
  }
  WEIR_TRY(const auto experts, keys.integer("expert_count", {0, 1 << 16}));
  if (experts.value_or(0) > 0) {
    return fail(ErrorCode::kUnsupported, "{}: a mixture of {} experts; only dense models are supported", keys.file(),
                *experts);
  }
  return {};
}

// The number of tokens that the file lists, or vocab_size in a file without a vocabulary.
Result<int> read_vocab(const Keys& keys) {
  WEIR_TRY(const auto stated, keys.integer("vocab_size", kVocabRange));
  const auto found = keys.gguf().metadata().find("tokenizer.ggml.tokens");
  if (found == keys.gguf().metadata().end()) {
    if (!stated)
      return fail(ErrorCode::kCorruptFile, "{}: neither \"tokenizer.ggml.tokens\" nor \"{}\" is there", keys.file(),
                  keys.full("vocab_size"));
    return static_cast<int>(*stated);
  }
  const auto* tokens = std::get_if<std::vector<std::string>>(&found->second);
  if (tokens == nullptr || tokens->empty() || tokens->size() > static_cast<std::size_t>(kVocabRange.high)) {
    return fail_at("tokenizer.ggml.tokens", ErrorCode::kCorruptFile,
                   "{}: \"tokenizer.ggml.tokens\" is {}; 1 to {} strings expected", keys.file(),
                   describe(found->second), kVocabRange.high);
  }
  return static_cast<int>(tokens->size());
}

Status read_yarn(const Keys& keys, RopeSpec& rope) {
  rope.scaling = RopeSpec::Scaling::kYarn;
  WEIR_TRY(rope.beta_fast, keys.number_or("rope.scaling.yarn_beta_fast", rope.beta_fast));
  WEIR_TRY(rope.beta_slow, keys.number_or("rope.scaling.yarn_beta_slow", rope.beta_slow));
  WEIR_TRY(const double mix, keys.number_or("rope.scaling.yarn_ext_factor", 1.0));
  if (mix != 1.0) {
    return fail(ErrorCode::kUnsupported, "{}: \"{}\" is {}; only 1 is supported", keys.file(),
                keys.full("rope.scaling.yarn_ext_factor"), mix);
  }
  // yarn_attn_factor is the whole multiplier, as in config.json; attn_factor multiplies YaRN's own.
  WEIR_TRY(const double log_multiplier, keys.number_or("rope.scaling.yarn_log_multiplier", 0.0));
  WEIR_TRY(const double extra, keys.number_or("rope.scaling.attn_factor", 1.0));
  const double own = log_multiplier == 0.0 ? yarn_magnitude(rope.factor)
                                           : yarn_magnitude(rope.factor) / yarn_magnitude(rope.factor, log_multiplier);
  WEIR_TRY(rope.attention_factor, keys.number_or("rope.scaling.yarn_attn_factor", own * extra));
  return {};
}

Result<RopeSpec> read_rope(const Keys& keys, const ModelSpec& spec) {
  RopeSpec rope;
  // The converter reorders the rows of q and k for this architecture only.
  rope.pairing = spec.family == "llama" ? RopeSpec::Pairing::kAdjacent : RopeSpec::Pairing::kHalves;
  WEIR_TRY(const auto dims, keys.integer("rope.dimension_count", kHeadDimRange));
  rope.dims = static_cast<int>(dims.value_or(spec.head_dim));
  WEIR_TRY(rope.theta, keys.number_or("rope.freq_base", kDefaultTheta));
  WEIR_TRY(auto factor, keys.number("rope.scaling.factor"));
  if (!factor) {
    WEIR_TRY(factor, keys.number("rope.scale_linear"));
  }
  // 0 stands for "none" in old files.
  rope.factor = factor.value_or(0.0) == 0.0 ? 1.0 : *factor;
  WEIR_TRY(const auto original, keys.integer("rope.scaling.original_context_length", kContextRange));
  rope.original_context = original.value_or(spec.context_length);

  const std::string type_key = keys.full("rope.scaling.type");
  const std::string* type = keys.gguf().get_string(type_key);
  if (type == nullptr && keys.find("rope.scaling.type") != nullptr) {
    return fail_at(type_key, ErrorCode::kCorruptFile, "{}: \"{}\" is no string", keys.file(), type_key);
  }
  if (type == nullptr || *type == "linear") {
    if (rope.factor != 1.0) rope.scaling = RopeSpec::Scaling::kLinear;
  } else if (*type == "yarn") {
    WEIR_RETURN_IF_ERROR(read_yarn(keys, rope));
  } else if (*type == "none") {
    rope.factor = 1.0;
  } else {
    return fail_at(type_key, ErrorCode::kUnsupported,
                   "{}: RoPE scaling \"{}\" is not supported; none, linear and yarn are", keys.file(), *type);
  }
  return rope;
}

// Llama 3's scaling comes as a tensor of divisors instead of as keys.
Status read_frequency_divisors(const Keys& keys, RopeSpec& rope) {
  const auto& tensors = keys.gguf().tensors();
  const auto found = std::ranges::find(tensors, "rope_freqs.weight", &Weight::name);
  if (found == tensors.end()) return {};
  const auto pairs = static_cast<std::size_t>(rope.dims / 2);
  if (found->dtype != tensor::DType::kF32 || found->data.size() != pairs * sizeof(float)) {
    return fail(ErrorCode::kCorruptFile, "{}: tensor \"rope_freqs.weight\" has {} bytes of {}; {} F32 values expected",
                keys.file(), found->data.size(), tensor::info(found->dtype).name, pairs);
  }
  rope.frequency_divisors.resize(pairs);
  std::memcpy(rope.frequency_divisors.data(), found->data.data(), found->data.size());
  for (const float divisor : rope.frequency_divisors) {
    if (!std::isfinite(divisor) || divisor <= 0) {
      return fail(ErrorCode::kCorruptFile, "{}: tensor \"rope_freqs.weight\" holds {}; positive numbers expected",
                  keys.file(), divisor);
    }
  }
  return {};
}

// Which of Gemma's layers see only a window.
Result<std::vector<bool>> local_layers(const Keys& keys, int layers) {
  constexpr std::string_view key = "attention.sliding_window_pattern";
  std::vector<bool> local(static_cast<std::size_t>(layers));
  const GgufValue* value = keys.find(key);
  const auto* flags = value == nullptr ? nullptr : std::get_if<std::vector<bool>>(value);
  const auto* numbers = value == nullptr ? nullptr : std::get_if<std::vector<std::int64_t>>(value);
  if (flags != nullptr || numbers != nullptr) {
    const std::size_t size = flags != nullptr ? flags->size() : numbers->size();
    if (size != local.size()) {
      return fail(ErrorCode::kCorruptFile, "{}: \"{}\" has {} entries for {} layers", keys.file(), keys.full(key), size,
                  layers);
    }
    for (std::size_t i = 0; i < size; ++i) local[i] = flags != nullptr ? bool{(*flags)[i]} : (*numbers)[i] != 0;
    return local;
  }
  WEIR_TRY(const auto pattern, keys.integer(key, {0, kLayerRange.high}));
  const std::int64_t period = pattern.value_or(kGemmaPattern);
  for (std::size_t i = 0; i < local.size(); ++i) {
    local[i] = period == 0 || static_cast<std::int64_t>(i) % period < period - 1;
  }
  return local;
}

Status add_gemma(const Keys& keys, ModelSpec& spec) {
  spec.qk_norm = spec.post_norms = true;
  spec.activation = Activation::kGeluTanh;
  spec.embedding_scale = std::sqrt(static_cast<float>(spec.hidden));
  const double divisor = spec.layers == kGemma27BLayers ? static_cast<double>(spec.hidden / spec.heads) : spec.head_dim;
  WEIR_TRY(spec.attention_scale, keys.number_or("attention.scale", 1.0 / std::sqrt(std::max(divisor, 1.0))));
  WEIR_TRY(spec.final_softcap, keys.number_or("final_logit_softcapping", 0.0));
  WEIR_TRY(spec.attention_softcap, keys.number_or("attn_logit_softcapping", 0.0));
  WEIR_TRY(const auto window, keys.integer("attention.sliding_window", kWindowRange));
  if (window.value_or(0) == 0) return {};
  WEIR_TRY(const auto local, local_layers(keys, spec.layers));
  RopeSpec local_rope;
  local_rope.pairing = spec.ropes[0].pairing;
  local_rope.dims = spec.ropes[0].dims;
  WEIR_TRY(local_rope.theta, keys.number_or("rope.freq_base_swa", kDefaultTheta));
  spec.ropes.push_back(local_rope);
  for (std::size_t i = 0; i < spec.layer.size(); ++i) {
    if (local[i]) spec.layer[i] = {.window = static_cast<int>(*window), .rope = 1};
  }
  return {};
}

bool has_tensor(const GgufFile& gguf, std::string_view name) {
  return std::ranges::find(gguf.tensors(), name, &Weight::name) != gguf.tensors().end() ||
         std::ranges::find(gguf.unsupported_tensors(), name, &UnsupportedTensor::name) !=
             gguf.unsupported_tensors().end();
}

}  // namespace

Result<SpecAndBiases> spec_from_gguf(const GgufFile& gguf, const std::string& file) {
  const std::string* architecture = gguf.get_string("general.architecture");
  if (architecture == nullptr) {
    return fail_at("general.architecture", ErrorCode::kCorruptFile,
                   "{}: metadata key \"general.architecture\" is missing or no string", file);
  }
  if (const std::string* type = gguf.get_string("general.type"); type != nullptr && *type != "model") {
    return fail(ErrorCode::kUnsupported, "{}: holds a {}, not a model", file, *type);
  }
  if (std::ranges::find(kArchitectures, *architecture) == kArchitectures.end()) {
    return unsupported_architecture(file, "architecture", *architecture, kArchitectures);
  }
  SpecAndBiases result;
  ModelSpec& spec = result.spec;
  spec.family = *architecture;
  const std::string* name = gguf.get_string("general.name");
  spec.name = name != nullptr ? *name : *architecture;
  const Keys keys(gguf, *architecture, file);
  WEIR_RETURN_IF_ERROR(read_sizes(keys, spec));
  WEIR_TRY(spec.vocab, read_vocab(keys));
  WEIR_TRY(const auto eps, keys.number("attention.layer_norm_rms_epsilon"));
  if (!eps) {
    return fail(ErrorCode::kCorruptFile, "{}: metadata key \"{}\" is missing", file,
                keys.full("attention.layer_norm_rms_epsilon"));
  }
  spec.rms_eps = static_cast<float>(*eps);
  WEIR_TRY(auto rope, read_rope(keys, spec));
  WEIR_RETURN_IF_ERROR(read_frequency_divisors(keys, rope));
  spec.context_length = stretched_context(rope, spec.context_length);
  spec.ropes.push_back(std::move(rope));
  spec.layer.resize(static_cast<std::size_t>(spec.layers));
  spec.tied_embeddings = !has_tensor(gguf, "output.weight");
  WEIR_TRY(spec.attention_scale,
           keys.number_or("attention.scale", 1.0 / std::sqrt(static_cast<double>(spec.head_dim))));
  spec.qk_norm = spec.family == "qwen3";
  if (spec.family == "gemma3") WEIR_RETURN_IF_ERROR(add_gemma(keys, spec));
  if (spec.family == "llama") result.biases = {Presence::kOptional, Presence::kOptional, Presence::kOptional};
  if (spec.family == "qwen2") result.biases.qkv = Presence::kRequired;
  WEIR_RETURN_IF_ERROR(check_spec(spec, file));
  return result;
}

}  // namespace weir::load
