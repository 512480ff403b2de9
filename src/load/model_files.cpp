#include "load/model_files.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "load/checked_weights.h"
#include "load/expected_tensors.h"
#include "load/gguf_config.h"
#include "load/gguf_types.h"
#include "load/hf_config.h"
#include "load/hf_quantised.h"
#include "load/hf_wrappers.h"
#include "load/limits.h"
#include "load/safetensors.h"
#include "tensor/half.h"

namespace weir::load {
namespace {

using nlohmann::json;
using tensor::DType;

// spec.main_dtype and spec.quantisation, from the matrices (vectors are always plain floats and weigh nothing).
void summarise_types(const WeightSource& weights, ModelSpec& spec) {
  std::map<DType, std::size_t> bytes;
  std::size_t total = 0;
  for (const Weight& weight : weights.all()) {
    if (weight.shape.size() < 2) continue;
    bytes[weight.dtype] += static_cast<std::size_t>(weight.bytes());
    total += static_cast<std::size_t>(weight.bytes());
  }
  std::vector<std::pair<DType, std::size_t>> order(bytes.begin(), bytes.end());
  std::ranges::sort(order, std::greater<>(), [](const auto& entry) { return std::pair(entry.second, entry.first); });
  spec.main_dtype = order.empty() ? DType::kF32 : order.front().first;
  spec.quantisation.clear();
  for (const auto& [type, size] : order) {
    if (!spec.quantisation.empty()) spec.quantisation += ", ";
    spec.quantisation += tensor::info(type).name;
    if (order.size() > 1)
      spec.quantisation += fmt::format(" {:.0f} %", 100.0 * static_cast<double>(size) / static_cast<double>(total));
  }
}

// Whether a tensor's name is that of a layer that is not run.
bool of_skipped_layer(std::string_view name, std::string_view layer_prefix, const ParsedModel& model) {
  if (!name.starts_with(layer_prefix)) return false;
  int layer = 0;
  const std::string_view rest = name.substr(layer_prefix.size());
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), layer);
  return error == std::errc() && layer >= model.spec.layers && layer < model.spec.layers + model.skipped_layers;
}

Result<ModelFiles> check_gguf(std::shared_ptr<GgufFile> gguf, const std::string& path) {
  ModelFiles model;
  model.path = path;
  model.gguf = gguf;
  model.format = fmt::format("GGUF v{}", gguf->version());
  model.file_bytes = gguf->file_bytes();
  WEIR_TRY(auto parsed, spec_from_gguf(*gguf, path));
  model.spec = parsed.spec;
  auto expected = expected_tensors(model.spec, parsed.biases);
  gguf_names(family_named(model.spec.family), model.spec, GgufLayout(gguf.get())).place(expected);
  WEIR_TRY(model.weights,
           check_weights(expected, {
                                       .file = path,
                                       .supported_types = supported_type_names(),
                                       .tensors = gguf->tensors(),
                                       .unsupported = gguf->unsupported_tensors(),
                                       .ignorable =
                                           [&parsed](std::string_view name) {
                                             // Rotations are in the spec already; rot_embd is a left-over of early
                                             // converters.
                                             return name == "rope_freqs.weight" || name.starts_with("rope_factors_") ||
                                                    name.ends_with(".attn_rot_embd.weight") ||
                                                    of_skipped_layer(name, "blk.", parsed);
                                           },
                                       .owner = gguf,
                                       .release = [gguf](std::span<const std::byte> bytes) { gguf->release(bytes); },
                                   }));
  WEIR_TRY(model.generation, generation_from_gguf(*gguf, model.spec.vocab, path));
  WEIR_TRY(model.chat_templates, templates_from_gguf(*gguf, path));
  if (const auto* text = gguf->get_string("tokenizer.huggingface.json")) model.tokenizer_json = *text;
  // weir's own key: what tokenizer_config.json says of the tokens around a text.
  if (const auto* text = gguf->get_string("tokenizer.huggingface.config")) model.tokenizer_config_json = *text;
  return model;
}

// transformers multiplies embeddings by the scale in the weights' own precision; Gemma was trained that way.
float rounded_to(DType type, float scale) {
  if (type == DType::kBF16) return tensor::f32_from_bf16(tensor::bf16_from_f32(scale));
  if (type == DType::kF16) return tensor::f32_from_f16(tensor::f16_from_f32(scale));
  return scale;
}

// Some folders hold a stack of matrices [inputs, outputs] as floats, but their quantised rows are outputs (gpt-oss).
void turn_quantised_slices(std::span<const Weight> derived, std::vector<ExpectedTensor>& expected) {
  std::map<std::string_view, const Weight*> by_name;
  for (const Weight& weight : derived) {
    if (tensor::is_quantised(weight.dtype)) by_name.emplace(weight.name, &weight);
  }
  for (ExpectedTensor& wanted : expected) {
    TensorPlace& place = wanted.place;
    if (!place.slice_transposed || !by_name.contains(place.file_name)) continue;
    place.slice_transposed = false;
    std::swap(place.slice_rows, place.slice_cols);
    std::iter_swap(place.file_shape.rbegin(), place.file_shape.rbegin() + 1);
  }
}

// The tensors of the language model, where the files hold other parts beside it.
template <class Tensor>
std::vector<Tensor> covered_by(const HfPrefix& prefix, std::span<const Tensor> tensors) {
  std::vector<Tensor> own;
  std::ranges::copy_if(tensors, std::back_inserter(own), [&](const Tensor& t) { return prefix.covers(t.name); });
  return own;
}

// The weights of the folder opened.path.
Status open_hf_weights(const json& config, const OpenOptions& options, ParsedModel& model, ModelFiles& opened) {
  const std::string& folder = opened.path;
  WEIR_TRY(std::shared_ptr<Safetensors> files, Safetensors::open(folder));
  opened.file_bytes = files->file_bytes();
  const auto is_there = [&](std::string_view name) {
    return std::ranges::find(files->tensors(), name, &Weight::name) != files->tensors().end();
  };
  const HfPrefix prefix = hf_prefix(model.wrapped, is_there);
  FolderView view = {files->tensors(), files->unsupported_tensors()};
  std::vector<Weight> own;
  std::vector<UnsupportedTensor> own_unsupported;
  if (model.wrapped) {
    own = covered_by(prefix, view.tensors);
    own_unsupported = covered_by(prefix, view.unsupported);
    view = {own, own_unsupported};
    const auto of_head = [&](const auto& tensor) { return tensor.name.starts_with(prefix.head); };
    if (std::ranges::any_of(own, of_head) || std::ranges::any_of(own_unsupported, of_head))
      model.spec.tied_embeddings = false;
  }
  auto expected = expected_tensors(model.spec, model.biases);
  TensorMap map = hf_tensor_map(prefix);
  const auto shape_of = [&](const std::string& name) -> std::span<const std::int64_t> {
    const auto found = std::ranges::find(files->tensors(), name, &Weight::name);
    return found == files->tensors().end() ? std::span<const std::int64_t>() : found->shape;
  };
  name_stacked_experts(model.spec, prefix, shape_of, map);
  const Family& family = family_named(model.spec.family);
  if (family.name_hf_tensors != nullptr) family.name_hf_tensors(model.spec, map);
  map.place(expected);
  const auto release_file = [files](std::span<const std::byte> bytes) { files->release(bytes); };
  std::set<std::string, std::less<>> turned;  // tensors that are read column by column
  for (const ExpectedTensor& wanted : expected) {
    if (!wanted.place.whole_rows()) turned.insert(wanted.place.file_name);
  }
  WEIR_TRY(const auto found,
           derive_quantised(holder_of("quantization_config", config), folder + "/config.json", view,
                            {.as_floats = [&](std::string_view name) { return turned.contains(name); },
                             .release = release_file,
                             .exact = options.exact}));
  const std::shared_ptr<DerivedTensors> derived = found.derived;
  if (derived != nullptr) turn_quantised_slices(derived->tensors(), expected);
  WEIR_TRY(opened.weights,
           check_weights(expected, {
                                       .file = folder,
                                       .supported_types = "F32, F16, BF16",
                                       .tensors = found.tensors,
                                       .unsupported = found.unsupported,
                                       .ignorable =
                                           [&](std::string_view name) {
                                             return name.ends_with("rotary_emb.inv_freq") ||
                                                    name.ends_with(".masked_bias") || name.starts_with("mtp.") ||
                                                    (model.spec.tied_embeddings && name == prefix.head + "weight") ||
                                                    of_skipped_layer(name, prefix.layers + "layers.", model);
                                           },
                                       .owner = files,
                                       .release =
                                           [=](std::span<const std::byte> bytes) {
                                             if (derived == nullptr || !derived->release(bytes)) release_file(bytes);
                                           },
                                       .fetch = derived == nullptr ? std::function<void(std::span<const std::byte>)>()
                                                                   : [derived](auto bytes) { derived->fetch(bytes); },
                                   }));
  return {};
}

// Trailing slashes and "." would give a model no name.
std::string folder_name(const std::string& folder) {
  std::error_code error;
  const auto path = std::filesystem::weakly_canonical(folder, error);
  return error || path.filename().empty() ? folder : path.filename().string();
}

// Whether the folder has a vocabulary in place of a tokenizer.json, which is the authority where it is there.
bool has_other_vocabulary(const std::string& folder) {
  std::error_code ignored;
  const auto has = [&](const char* name) { return std::filesystem::exists(folder + "/" + name, ignored); };
  return !has("tokenizer.json") &&
         (has("tekken.json") || has("tokenizer.model") || has("tiktoken.model") || has("qwen.tiktoken"));
}

Result<ModelFiles> open_folder(const std::string& folder, const OpenOptions& options) {
  ModelFiles model;
  model.path = folder;
  model.format = "safetensors";
  const std::string config_path = folder + "/config.json";
  WEIR_TRY(const auto config_text, read_text_file(config_path, kMaxConfigBytes));
  WEIR_TRY(const json config, parse_json(config_text, config_path));
  WEIR_TRY(auto parsed, spec_from_config(config, config_path));
  if (parsed.spec.name.empty()) parsed.spec.name = folder_name(folder);
  WEIR_RETURN_IF_ERROR(open_hf_weights(config, options, parsed, model));
  model.spec = std::move(parsed.spec);
  model.spec.embedding_scale = rounded_to(model.weights->find("token_embd.weight")->dtype, model.spec.embedding_scale);

  if (!has_other_vocabulary(folder)) {
    WEIR_TRY(model.tokenizer_json, read_text_file(folder + "/tokenizer.json", kMaxTokenizerBytes));
  }
  json tokenizer_config;
  if (std::error_code ignored; std::filesystem::exists(folder + "/tokenizer_config.json", ignored)) {
    WEIR_TRY(model.tokenizer_config_json, read_text_file(folder + "/tokenizer_config.json", kMaxConfigBytes));
    WEIR_TRY(tokenizer_config, parse_json(model.tokenizer_config_json, folder + "/tokenizer_config.json"));
  }
  WEIR_TRY(model.chat_templates, templates_from_folder(folder, tokenizer_config));
  WEIR_TRY(model.generation, generation_from_folder(folder, config, model.spec.vocab));
  return model;
}

}  // namespace

Result<ModelFiles> model_from_gguf(std::shared_ptr<GgufFile> gguf, const std::string& path) {
  WEIR_TRY(auto model, check_gguf(std::move(gguf), path));
  summarise_types(*model.weights, model.spec);
  return model;
}

Result<ModelFiles> open_model(const std::string& path, const OpenOptions& options) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) return fail(ErrorCode::kNotFound, "{}: no such file or folder", path);
  if (!std::filesystem::is_directory(status)) {
    WEIR_TRY(auto gguf, GgufFile::open(path));
    return model_from_gguf(std::move(gguf), path);
  }
  WEIR_TRY(auto model, open_folder(path, options));
  summarise_types(*model.weights, model.spec);
  return model;
}

}  // namespace weir::load
