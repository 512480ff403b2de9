#include "load/inspect.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "base/printable.h"
#include "load/hf_config.h"
#include "load/json_fields.h"
#include "load/limits.h"
#include "load/model_files.h"
#include "load/safetensors.h"
#include "load/tensor_tree.h"

namespace weir::load {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMaxShownText = 200;  // of a metadata string
constexpr std::size_t kMaxFaults = 8;       // of a damaged model: a hundred shards may be missing

struct TypeTotal {
  std::int64_t tensors = 0, bytes = 0;
};

// One description, whatever it is written as.
struct Facts {
  std::string path, format;
  std::int64_t file_bytes = 0;
  std::optional<ModelSpec> spec;           // empty: cannot be served
  std::string reason;                      // why not
  std::vector<UnsupportedTensor> tensors;  // all of them, whether supported or not
  Json metadata = Json::object();          // arrays as their length
  std::vector<std::string> templates;
  std::vector<TokenId> eos_ids;
  bool has_weights = true;
  KvCost f16, f32;
  std::vector<std::string> unread;  // what could not be read, and why
  // What serving takes at least: all weights, and the KV of sequences that have grown to `context` tokens.
  struct Memory {
    std::int64_t context = 0, sequences = 0;
    bool f32 = false;  // KV elements, as --kv-cache-dtype auto chooses
    double kv = 0;
  };
  Memory memory;

  std::map<std::string, TypeTotal> types() const {
    std::map<std::string, TypeTotal> totals;
    for (const auto& tensor : tensors) {
      TypeTotal& total = totals[tensor.type];
      total.tensors += 1;
      total.bytes = capped_sum(total.bytes, tensor.bytes);
    }
    return totals;
  }

  std::int64_t weight_bytes() const {
    std::int64_t bytes = 0;
    for (const auto& tensor : tensors) bytes = capped_sum(bytes, tensor.bytes);
    return bytes;
  }

  // Tensors of a damaged file may claim any number of bytes.
  static std::int64_t capped_sum(std::int64_t a, std::int64_t b) {
    std::int64_t sum = 0;
    return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<std::int64_t>::max() : sum;
  }

  // As a double: a hostile file may claim more than 2^63 elements in all.
  double parameters() const {
    double count = 0;
    for (const auto& tensor : tensors) {
      double elements = 1;
      for (const std::int64_t extent : tensor.shape) elements *= static_cast<double>(extent);
      count += elements;
    }
    return count;
  }
};

void add_tensors(Facts& facts, std::span<const Weight> weights, std::span<const UnsupportedTensor> unsupported) {
  for (const Weight& weight : weights) {
    facts.tensors.push_back({weight.name, std::string(tensor::info(weight.dtype).name), weight.shape,
                             static_cast<std::int64_t>(weight.data.size())});
  }
  facts.tensors.insert(facts.tensors.end(), unsupported.begin(), unsupported.end());
}

struct ToJson {
  Json operator()(const std::string& text) const {
    return text.size() <= kMaxShownText ? text
                                        : text.substr(0, kMaxShownText) + fmt::format("... ({} bytes)", text.size());
  }
  template <class T>
  Json operator()(const std::vector<T>& array) const {
    return fmt::format("{} values", array.size());
  }
  template <class T>
  Json operator()(const T& scalar) const {
    return scalar;
  }
};

void add_metadata(Facts& facts, const std::map<std::string, GgufValue, std::less<>>& metadata) {
  for (const auto& [key, value] : metadata) facts.metadata[key] = std::visit(ToJson{}, value);
}

std::string gguf_format(int version, int parts) {
  return fmt::format("GGUF v{}", version) + (parts > 1 ? fmt::format(" in {} parts", parts) : "");
}

Result<Facts> damaged_gguf_facts(const std::string& path, const Error& error) {
  GgufRemains remains = read_damaged_gguf(path);
  if (remains.metadata.empty() && remains.tensors.empty()) return tl::unexpected(error);
  Facts facts;
  facts.format = gguf_format(remains.version, remains.parts) + ", damaged or not complete";
  facts.file_bytes = remains.file_bytes;
  facts.tensors = std::move(remains.tensors);
  facts.unread = std::move(remains.faults);
  add_metadata(facts, remains.metadata);
  return facts;
}

Result<Facts> gguf_facts(const std::string& path) {
  Facts facts;
  const auto opened = GgufFile::open(path);
  if (!opened) return damaged_gguf_facts(path, opened.error());
  const GgufFile& gguf = **opened;
  facts.format = gguf_format(gguf.version(), gguf.parts());
  facts.file_bytes = gguf.file_bytes();
  add_tensors(facts, gguf.tensors(), gguf.unsupported_tensors());
  add_metadata(facts, gguf.metadata());
  return facts;
}

Result<Facts> folder_facts(const std::string& folder) {
  Facts facts;
  const std::string path = folder + "/config.json";
  const auto config =
      read_text_file(path, kMaxConfigBytes).and_then([&](const std::string& text) { return parse_json(text, path); });
  const auto files = Safetensors::open(folder);
  // One of them is a description.
  if (!config && !files) return tl::unexpected(config.error());
  if (config && config->is_object()) {
    for (const auto& [key, value] : config->items()) facts.metadata[key] = Json(value);
  }
  if (!config) facts.unread.push_back(config.error().message);
  if (!files) {
    const auto remains = Safetensors::open_damaged(folder, facts.unread);
    facts.format = remains->files() == 0 ? "configuration without weights" : "safetensors, damaged or not complete";
    facts.file_bytes = remains->file_bytes();
    facts.has_weights = false;
    add_tensors(facts, {}, remains->unsupported_tensors());
    if (facts.unread.empty() && files.error().code != ErrorCode::kNotFound)
      facts.unread.push_back(files.error().message);
    return facts;
  }
  facts.format = (*files)->files() == 1 ? "safetensors" : fmt::format("safetensors in {} shards", (*files)->files());
  facts.file_bytes = (*files)->file_bytes();
  add_tensors(facts, (*files)->tensors(), (*files)->unsupported_tensors());
  return facts;
}

bool only_vocabulary(const Facts& facts) {
  return facts.tensors.empty() && facts.metadata.contains("tokenizer.ggml.tokens");
}

// Of a folder without weights.
Status add_spec_of_config(Facts& facts, const std::string& folder) {
  const std::string path = folder + "/config.json";
  WEIR_TRY(const auto text, read_text_file(path, kMaxConfigBytes));
  WEIR_TRY(const auto config, parse_json(text, path));
  auto model = spec_from_config(config, path);
  if (model) {
    facts.spec = std::move(model->spec);
    if (facts.spec->name.empty()) facts.spec->name = std::filesystem::path(folder).filename().string();
    return {};
  }
  if (model.error().code != ErrorCode::kUnsupported && facts.unread.empty())
    return tl::unexpected(std::move(model).error());
  facts.reason = model.error().message;
  return {};
}

Result<Facts> gather(const std::string& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) return fail(ErrorCode::kNotFound, "{}: no such file or folder", path);
  WEIR_TRY(auto facts, std::filesystem::is_directory(status) ? folder_facts(path) : gguf_facts(path));
  facts.path = path;
  if (facts.unread.size() > kMaxFaults) {
    const std::string more = fmt::format("and {} more", facts.unread.size() - kMaxFaults);
    facts.unread.resize(kMaxFaults);
    facts.unread.push_back(more);
  }
  if (!facts.has_weights) {
    WEIR_RETURN_IF_ERROR(add_spec_of_config(facts, path));
    return facts;
  }
  auto model = open_model(path);
  if (!model) {
    facts.reason = only_vocabulary(facts) ? "the file holds only a vocabulary" : model.error().message;
    return facts;
  }
  facts.spec = std::move(model->spec);
  facts.eos_ids = model->generation.eos_ids;
  for (const auto& [name, text] : model->chat_templates) facts.templates.push_back(name.empty() ? "default" : name);
  return facts;
}

std::string_view scaling_name(RopeSpec::Scaling scaling) {
  switch (scaling) {
    case RopeSpec::Scaling::kNone:
      return "none";
    case RopeSpec::Scaling::kLinear:
      return "linear";
    case RopeSpec::Scaling::kLlama3:
      return "llama3";
    case RopeSpec::Scaling::kYarn:
      return "yarn";
    case RopeSpec::Scaling::kLong:
      return "longrope";
  }
  return "";
}

std::string bytes_text(double bytes) {
  constexpr std::array kUnits = {"bytes", "kB", "MB", "GB", "TB"};
  std::size_t unit = 0;
  while (bytes >= 1000 && unit + 1 < kUnits.size()) {
    bytes /= 1000;
    ++unit;
  }
  return unit == 0 ? fmt::format("{:.0f} bytes", bytes) : fmt::format("{:.1f} {}", bytes, kUnits[unit]);
}

class TextWriter {
 public:
  void line(std::string_view label, std::string_view value) {
    out_ += fmt::format("{:<16} {}\n", label, printable(value));
  }
  void raw(std::string_view text) { out_ += text; }
  std::string take() { return std::move(out_); }

 private:
  std::string out_;
};

std::string rope_text(const RopeSpec& rope, const ModelSpec& spec) {
  std::string text = fmt::format("base {:g}, {} of {} elements of a head, in {} pairs", rope.theta, rope.dims,
                                 spec.head_dim, rope.pairing == RopeSpec::Pairing::kAdjacent ? "adjacent" : "half");
  if (rope.scaling != RopeSpec::Scaling::kNone)
    text += fmt::format(", {} scaling by {:g}", scaling_name(rope.scaling), rope.factor);
  if (rope.original_context > 0 && rope.scaling > RopeSpec::Scaling::kLinear)
    text += fmt::format(" of {} tokens", rope.original_context);
  if (rope.growth > 0)
    text += fmt::format(", growing by {:g} ln(1 + n) every {} tokens", rope.growth, rope.original_context);
  if (!rope.frequency_divisors.empty()) text += ", frequencies divided as the file says";
  return text;
}

std::string windows_text(const ModelSpec& spec) {
  std::map<int, int> layers;
  for (const LayerSpec& layer : spec.layer) {
    if (layer.mixer != Mixer::kDelta) layers[layer.window] += 1;
  }
  std::string text;
  for (const auto& [window, count] : layers) {
    if (!text.empty()) text += ", ";
    text += window == 0 ? fmt::format("{} layers see everything", count)
                        : fmt::format("{} layers see {} tokens", count, window);
  }
  return text;
}

std::string attention_text(const ModelSpec& spec) {
  const auto count = [&](Mixer mixer) { return std::ranges::count(spec.layer, mixer, &LayerSpec::mixer); };
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : "; ") + part; };
  if (count(Mixer::kAttention) > 0)
    add(fmt::format("{} query heads, {} KV heads of {} elements", spec.heads, spec.kv_heads, spec.head_dim));
  if (count(Mixer::kLatent) > 0) {
    add(fmt::format("{} heads over latents of {} and rotated keys of {}", spec.heads, spec.latent.rank,
                    spec.latent.rope_dim));
  }
  if (spec.indexer.heads > 0) add(fmt::format("each token sees the best {} positions", spec.indexer.positions));
  if (count(Mixer::kDelta) > 0) {
    add(fmt::format("gated delta nets of {} heads in {} layers", spec.delta.value_heads, count(Mixer::kDelta)));
  }
  return text;
}

std::string_view activation_name(Activation activation) {
  switch (activation) {
    case Activation::kSilu:
      return "SiLU";
    case Activation::kGeluTanh:
      return "GELU (tanh)";
    case Activation::kClampedSwiglu:
      return "SwiGLU, clamped";
  }
  return "";
}

std::string experts_text(const ModelSpec& spec) {
  std::string text = fmt::format("{} of {} of size {} per token, in {} layers", spec.experts.used, spec.experts.count,
                                 spec.experts.ffn, std::ranges::count(spec.layer, true, &LayerSpec::sparse));
  if (spec.experts.shared_ffn > 0) text += fmt::format(", and one of size {} for all", spec.experts.shared_ffn);
  return text;
}

// Exactly, for it is what people multiply.
std::string kv_text(double bytes) {
  return fmt::format("{:.12g} bytes ({:.6g} KiB)", bytes, bytes / 1024);
}

Json kv_json(double bytes) {
  const auto whole = static_cast<std::int64_t>(bytes);
  return static_cast<double>(whole) == bytes ? Json(whole) : Json(bytes);
}

void write_spec(TextWriter& out, const Facts& facts) {
  const ModelSpec& spec = *facts.spec;
  out.line("name", spec.name);
  out.line("family", spec.family);
  out.line("layers", fmt::format("{} of hidden size {}", spec.layers, spec.hidden));
  out.line("attention", attention_text(spec));
  out.line("feed-forward", fmt::format("{}, {}", spec.ffn, activation_name(spec.activation)));
  if (spec.has_sparse_layers()) out.line("experts", experts_text(spec));
  out.line("windows", windows_text(spec));
  for (std::size_t i = 0; i < spec.ropes.size(); ++i)
    out.line(i == 0                     ? "RoPE"
             : spec.indexer.heads > 0   ? "RoPE, indexer"
             : spec.ropes[i].growth > 0 ? "RoPE, queries"
                                        : "RoPE, local",
             rope_text(spec.ropes[i], spec));
  out.line("context", fmt::format("{} tokens", spec.context_length));
  out.line("vocabulary", fmt::format("{} tokens, {} head", spec.vocab, spec.tied_embeddings ? "tied" : "separate"));
  if (facts.has_weights)
    out.line("weights", fmt::format("{} ({:.1f} M parameters)", spec.quantisation, facts.parameters() / 1e6));
  out.line("KV per token", fmt::format("{} in F16 or BF16, {} in F32", kv_text(facts.f16.bytes_per_token),
                                       kv_text(facts.f32.bytes_per_token)));
  if (facts.f16.state_bytes > 0) {
    // In whole blocks, whose size depends on the type.
    out.line("state", fmt::format("{} of a sequence beside F16 or BF16, {} beside F32",
                                  kv_text(static_cast<double>(facts.f16.state_bytes)),
                                  kv_text(static_cast<double>(facts.f32.state_bytes))));
  }
  const Facts::Memory& memory = facts.memory;
  const auto weights = static_cast<double>(facts.weight_bytes());
  const std::string kv =
      fmt::format("{} of {} KV for {} of {} tokens", bytes_text(memory.kv), memory.f32 ? "F32" : "F16",
                  memory.sequences == 1 ? "a sequence" : fmt::format("{} sequences", memory.sequences), memory.context);
  out.line("memory", facts.has_weights ? fmt::format("{}: {} of weights, and {}", bytes_text(weights + memory.kv),
                                                     bytes_text(weights), kv)
                                       : kv);
  std::string names;
  for (const auto& name : facts.templates) names += (names.empty() ? "yes: " : ", ") + name;
  out.line("chat template", names.empty() ? "no" : names);
  std::string ends;
  for (const TokenId id : facts.eos_ids) ends += fmt::format("{}{}", ends.empty() ? "" : ", ", id);
  out.line("ends at tokens", ends.empty() ? "none known" : ends);
}

std::string shape_text(const UnsupportedTensor& tensor) {
  return fmt::format("{} [{}]", tensor.type, fmt::join(tensor.shape, ", "));
}

void write_tensors(TextWriter& out, const Facts& facts, bool all) {
  if (all) {
    out.raw("\ntensors\n");
    for (const auto& tensor : facts.tensors)
      out.raw(fmt::format("  {} {}\n", printable(tensor.name), printable(shape_text(tensor))));
    return;
  }
  for (const TensorGroup& group : tensor_tree(facts.tensors)) {
    const std::string bytes = bytes_text(static_cast<double>(group.bytes));
    if (group.first_layer < 0) {
      out.raw(fmt::format("\nno layer's: {}\n", bytes));
    } else if (group.first_layer == group.last_layer) {
      out.raw(fmt::format("\nlayer {}: {}\n", group.first_layer, bytes));
    } else {
      out.raw(fmt::format("\nlayers {} to {}: {} each\n", group.first_layer, group.last_layer, bytes));
    }
    for (const auto& tensor : group.tensors) {
      out.raw(fmt::format("  {:<34} {:<24} {}\n", printable(name_in_layer(tensor.name)), printable(shape_text(tensor)),
                          bytes_text(static_cast<double>(tensor.bytes))));
    }
  }
}

std::string as_text(const Facts& facts, const InspectOptions& options) {
  TextWriter out;
  out.line("path", facts.path);
  out.line("format", fmt::format("{}, {}", facts.format, bytes_text(static_cast<double>(facts.file_bytes))));
  if (facts.spec) {
    write_spec(out, facts);
  } else {
    out.line("cannot be served", facts.reason);
  }
  for (const std::string& problem : facts.unread) {
    if (problem != facts.reason) out.line("cannot be read", problem);
  }
  for (const auto& [name, value] : options.more) out.line(name, value);
  const double all_bytes = std::max(1.0, static_cast<double>(facts.weight_bytes()));
  for (const auto& [type, total] : facts.types()) {
    const auto bytes = static_cast<double>(total.bytes);
    out.line("tensors",
             fmt::format("{} of {}, {} ({:.1f} %)", total.tensors, type, bytes_text(bytes), 100 * bytes / all_bytes));
  }
  if (!facts.spec) {
    out.raw("\nmetadata\n");
    for (const auto& [key, value] : facts.metadata.items()) {
      const std::string text =
          value.is_string() ? value.get<std::string>() : value.dump(-1, ' ', false, Json::error_handler_t::replace);
      out.raw(fmt::format("  {} = {}\n", printable(key), printable(text)));
    }
  }
  write_tensors(out, facts, options.all_tensors || !facts.spec);
  return out.take();
}

Json rope_json(const RopeSpec& rope) {
  Json json = {{"theta", rope.theta},
               {"dims", rope.dims},
               {"pairing", rope.pairing == RopeSpec::Pairing::kAdjacent ? "adjacent" : "halves"},
               {"scaling", scaling_name(rope.scaling)}};
  if (rope.scaling != RopeSpec::Scaling::kNone) json["factor"] = rope.factor;
  if (rope.original_context > 0) json["original_context"] = rope.original_context;
  if (rope.attention_factor > 0) json["attention_factor"] = rope.attention_factor;
  return json;
}

void add_spec(Json& json, const Facts& facts) {
  const ModelSpec& spec = *facts.spec;
  json["name"] = spec.name;
  json["family"] = spec.family;
  json["layers"] = spec.layers;
  json["hidden_size"] = spec.hidden;
  json["heads"] = spec.heads;
  json["kv_heads"] = spec.kv_heads;
  json["head_dim"] = spec.head_dim;
  json["ffn_size"] = spec.ffn;
  json["vocab_size"] = spec.vocab;
  json["context_length"] = spec.context_length;
  json["tied_embeddings"] = spec.tied_embeddings;
  json["quantisation"] = spec.quantisation;
  json["windows"] = Json::array();
  for (const LayerSpec& layer : spec.layer) json["windows"].push_back(layer.window);
  json["ropes"] = Json::array();
  for (const RopeSpec& rope : spec.ropes) json["ropes"].push_back(rope_json(rope));
  const Json f16 = kv_json(facts.f16.bytes_per_token);
  json["kv_bytes_per_token"] = {{"f16", f16}, {"bf16", f16}, {"f32", kv_json(facts.f32.bytes_per_token)}};
  if (facts.f16.state_bytes > 0) {
    const std::int64_t state = facts.f16.state_bytes;
    json["state_bytes"] = {{"f16", state}, {"bf16", state}, {"f32", facts.f32.state_bytes}};
  }
  const auto weights = static_cast<double>(facts.weight_bytes());
  json["memory_bytes"] = weights + facts.memory.kv;
  json["memory"] = {{"weights", weights},
                    {"kv", facts.memory.kv},
                    {"context", facts.memory.context},
                    {"sequences", facts.memory.sequences},
                    {"kv_dtype", facts.memory.f32 ? "f32" : "f16"}};
  json["chat_templates"] = facts.templates;
  json["eos_token_ids"] = facts.eos_ids;
}

std::string as_json(const Facts& facts, const InspectOptions& options) {
  Json json = {{"path", facts.path},
               {"format", facts.format},
               {"file_bytes", facts.file_bytes},
               {"supported", facts.spec.has_value() && facts.unread.empty()}};
  if (facts.spec) {
    add_spec(json, facts);
  } else {
    json["reason"] = facts.reason;
  }
  if (!facts.unread.empty()) json["unread"] = facts.unread;
  for (const auto& [name, value] : options.more) json[name] = value;
  json["parameters"] = facts.parameters();
  json["types"] = Json::object();
  for (const auto& [type, total] : facts.types())
    json["types"][type] = {{"tensors", total.tensors}, {"bytes", total.bytes}};
  json["metadata"] = facts.metadata;
  json["tensors"] = Json::array();
  for (const auto& tensor : facts.tensors) {
    json["tensors"].push_back(
        {{"name", tensor.name}, {"type", tensor.type}, {"shape", tensor.shape}, {"bytes", tensor.bytes}});
  }
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

Result<std::string> describe_model(const std::string& path, const InspectOptions& options, const KvCostOf& kv_cost) {
  WEIR_TRY(auto facts, gather(path));
  if (facts.spec) {
    ModelSpec grown = *facts.spec;
    facts.f16 = kv_cost(grown, tensor::DType::kF16);
    facts.f32 = kv_cost(grown, tensor::DType::kF32);
    if (options.context > 0) grown.context_length = std::min(options.context, grown.context_length);
    facts.memory = {.context = grown.context_length,
                    .sequences = options.sequences,
                    .f32 = facts.has_weights && grown.main_dtype == tensor::DType::kF32};
    const KvCost cost = kv_cost(grown, facts.memory.f32 ? tensor::DType::kF32 : tensor::DType::kF16);
    facts.memory.kv = static_cast<double>(cost.bytes_of_context) * static_cast<double>(options.sequences);
  }
  return options.format == InspectFormat::kJson ? as_json(facts, options) : as_text(facts, options);
}

}  // namespace weir::load
