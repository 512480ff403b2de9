// A Hugging Face folder as a GGUF file's metadata and tensors. Names and the order of rows are those by which the
// architecture's own family reads GGUF files (load/families); that they suffice is tried before anything is written.
#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "load/expected_tensors.h"
#include "load/gguf_config.h"
#include "load/model_files.h"
#include "quantise/model_keys.h"
#include "quantise/source_model.h"
#include "quantise/vocabulary.h"

namespace weir::quantise {
namespace {

using load::Family;
using load::ModelSpec;
using load::RopeSpec;
using std::int64_t;

struct Folder {
  load::ModelFiles files;
  std::vector<VectorTensor> rotations;
};

tl::unexpected<Error> cannot(const std::string& path, std::string_view what) {
  return fail(ErrorCode::kUnsupported, "{}: cannot be written as GGUF: {}", path, what);
}

std::string architecture_of(const Family& family) {
  if (!family.written_as.empty()) return std::string(family.written_as);
  return family.gguf_architectures.empty() ? "" : std::string(family.gguf_architectures.front());
}

// The weights of the folder as tensors of the file: fused, stacked, and named.
std::vector<SourceTensor> laid_out(const load::WeightSource& weights, const load::TensorMap& names) {
  std::vector<load::ExpectedTensor> places;
  for (const load::Weight& weight : weights.all()) places.push_back({weight.name, weight.shape, {}, {}});
  names.place(places);
  std::vector<SourceTensor> tensors;
  std::unordered_map<std::string, std::size_t> known;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const load::Weight& weight = weights.all()[i];
    const load::TensorPlace& place = places[i].place;
    const auto [at, is_new] = known.try_emplace(place.file_name, tensors.size());
    if (is_new) {
      tensors.push_back({.name = place.file_name, .dtype = weight.dtype, .shape = place.file_shape});
      tensors.back().slices = place.slices;
    }
    tensors[at->second].parts.push_back({&weight, place.slice, place.rows, {}});
  }
  return tensors;
}

// What a reader of the file will take it for.
Result<load::ParsedModel> read_back(const std::string& path, const ModelKeys& keys,
                                    const std::vector<SourceTensor>& tensors) {
  std::vector<GgufTensor> table;
  std::vector<std::byte> data;
  const auto pad = [&data] { data.resize((data.size() + kGgufAlignment - 1) / kGgufAlignment * kGgufAlignment); };
  for (const VectorTensor& vector : keys.tensors) {
    table.push_back({vector.name, tensor::DType::kF32, {static_cast<int64_t>(vector.values.size())}});
    const auto bytes = std::as_bytes(std::span(vector.values));
    data.insert(data.end(), bytes.begin(), bytes.end());
    pad();
  }
  for (const SourceTensor& tensor : tensors) {  // only their names matter
    table.push_back({tensor.name, tensor::DType::kF32, {1}});
    data.resize(data.size() + static_cast<std::size_t>(kGgufAlignment));
  }
  std::vector<std::byte> file = gguf_head(keys.metadata, table);
  file.insert(file.end(), data.begin(), data.end());
  WEIR_TRY(const auto gguf, load::GgufFile::parse(file, path));
  WEIR_TRY(auto model, load::spec_from_gguf(*gguf, path));
  auto expected = load::expected_tensors(model.spec, model.biases);
  load::gguf_names(load::family_named(model.spec.family), model.spec, load::GgufLayout(gguf.get())).place(expected);
  std::unordered_map<std::string_view, const load::ExpectedTensor*> wanted;
  for (const load::ExpectedTensor& each : expected) wanted.emplace(each.place.file_name, &each);
  for (const SourceTensor& tensor : tensors) {
    const auto found = wanted.find(tensor.name);
    if (found == wanted.end())
      return cannot(path, fmt::format("tensor \"{}\" is not part of models of the architecture {}", tensor.name,
                                      architecture_of(load::family_named(model.spec.family))));
    if (found->second->place.file_shape != tensor.shape)
      return cannot(path, fmt::format("tensor \"{}\" would have another shape than is read", tensor.name));
    wanted.erase(found);
  }
  for (const auto& [name, each] : wanted) {
    if (each->presence == load::Presence::kRequired)
      return cannot(path, fmt::format("the model lacks tensor \"{}\" of its architecture", name));
  }
  return model;
}

// Rows of q or k from halves of what is rotated to neighbours. In each `period` of rows, those from `begin` on are
// rotated, `dims` of them: row 2i is the i-th of them, row 2i + 1 is number i + dims / 2.
std::function<int64_t(int64_t)> neighbours(int64_t period, int64_t begin, int64_t dims) {
  return [=](int64_t row) {
    const int64_t at = row % period - begin;
    return at < 0 || at >= dims ? row : row - at + at / 2 + at % 2 * (dims / 2);
  };
}

// A tensor's name without its layer and ending.
std::string_view stem(std::string_view name) {
  name = name.substr(0, name.rfind('.'));
  return name.substr(name.rfind('.') + 1);
}

std::function<int64_t(int64_t)> paired_rows(const ModelSpec& spec, std::string_view name) {
  const std::string_view part = stem(name);
  const load::LatentSpec& latent = spec.latent;
  const int dims = spec.ropes[0].dims;
  if (latent.rank == 0) {
    const bool turned = part == "attn_q" || part == "attn_k" || part == "attn_q_norm" || part == "attn_k_norm";
    return turned ? neighbours(spec.head_dim, 0, dims) : std::function<int64_t(int64_t)>();
  }
  if (part == "attn_kv_a_mqa") return neighbours(latent.rank + latent.rope_dim, latent.rank, dims);
  return part == "attn_q" || part == "attn_q_b" ? neighbours(spec.head_dim, latent.plain_dim, dims)
                                                : std::function<int64_t(int64_t)>();
}

// Element i of a value head's things in turns (all first heads of the key heads, then the second ones, ...), `size`
// elements a head, is number at(i) where the heads of a key head lie side by side. What comes before `begin` stays.
std::function<int64_t(int64_t)> in_turns(const load::DeltaSpec& delta, int64_t size, int64_t begin = 0) {
  const int64_t keys = delta.key_heads, each = delta.value_heads / delta.key_heads;
  return [=](int64_t i) {
    if (i < begin) return i;
    const int64_t head = (i - begin) / size;
    return begin + (head % keys * each + head / keys) * size + (i - begin) % size;
  };
}

// The parts of a delta net whose rows are those of its value heads, and its output, whose columns are.
void take_turns(const load::DeltaSpec& delta, SourceTensor& tensor) {
  for (SourcePart& of : tensor.parts) {
    const std::string_view part = stem(of.weight->name);
    if (part == "ssm_v" || part == "ssm_z") of.order = in_turns(delta, delta.value_dim);
    if (part == "ssm_alpha" || part == "ssm_beta" || part == "ssm_a" || part == "ssm_dt") of.order = in_turns(delta, 1);
    if (part == "ssm_conv1d") of.order = in_turns(delta, delta.value_dim, int64_t{2} * delta.key_heads * delta.key_dim);
    if (part != "ssm_out") continue;
    tensor.change = [order = in_turns(delta, delta.value_dim), columns = of.weight->shape[1],
                     row = std::vector<float>()](std::span<float> values) mutable {
      for (; !values.empty(); values = values.subspan(static_cast<std::size_t>(columns))) {
        row.assign(values.begin(), values.begin() + columns);
        for (int64_t i = 0; i < columns; ++i)
          values[static_cast<std::size_t>(i)] = row[static_cast<std::size_t>(order(i))];
      }
    };
  }
}

// Where files of the two kinds hold the same numbers in another form.
void convert_values(const ModelSpec& folder, const ModelSpec& file, std::vector<SourceTensor>& tensors) {
  const bool pair =
      folder.ropes[0].pairing == RopeSpec::Pairing::kHalves && file.ropes[0].pairing == RopeSpec::Pairing::kAdjacent;
  const float offset = folder.norm_weight_offset - file.norm_weight_offset;
  for (SourceTensor& tensor : tensors) {
    const std::string_view part = stem(tensor.parts[0].weight->name);
    for (SourcePart& of : tensor.parts)
      if (pair) of.order = paired_rows(folder, of.weight->name);
    if (file.delta.tiled && !folder.delta.tiled) take_turns(folder.delta, tensor);
    if (offset != 0 && part.ends_with("_norm") && part != "ssm_norm") {
      tensor.change = [offset](std::span<float> values) {
        for (float& value : values) value += offset;
      };
    }
    if (part == "ssm_a" && folder.delta.log_decay && !file.delta.log_decay) {
      tensor.change = [](std::span<float> values) {
        for (float& value : values) value = -std::exp(value);
      };
    }
  }
}

}  // namespace

Result<SourceModel> source_from_folder(const std::string& path) {
  auto folder = std::make_shared<Folder>();
  WEIR_TRY(folder->files, load::open_model(path, {.exact = true}));
  const ModelSpec& spec = folder->files.spec;
  const std::string architecture = architecture_of(load::family_named(spec.family));
  const Family* reader = load::family_reading(architecture);
  if (reader == nullptr)
    return cannot(path, fmt::format("weir knows no architecture of GGUF for a {} model", spec.family));

  SourceModel model;
  model.layers = spec.layers;
  model.queries_per_kv_head = std::max(1, spec.heads / spec.kv_heads);
  model.tensors = laid_out(*folder->files.weights, load::gguf_names(*reader, spec, load::GgufLayout(nullptr)));
  std::string difference;
  ModelKeys keys;
  load::ParsedModel read;
  for (const bool patterns : {false, true}) {
    keys = model_keys(spec, architecture, patterns);
    WEIR_TRY(read, read_back(path, keys, model.tensors));
    difference = first_difference(spec, read.spec);
    if (difference.empty()) break;
  }
  if (!difference.empty())
    return cannot(path, fmt::format("files of the architecture {} cannot say {}", architecture, difference));
  convert_values(spec, read.spec, model.tensors);

  folder->rotations = std::move(keys.tensors);
  for (const VectorTensor& vector : folder->rotations) {
    const auto size = static_cast<int64_t>(vector.values.size());
    model.tensors.push_back({vector.name, tensor::DType::kF32, {size}, std::as_bytes(std::span(vector.values))});
  }
  model.metadata = std::move(keys.metadata);
  WEIR_TRY(model.note, add_vocabulary(folder->files, architecture, model.metadata));
  model.read = [folder](const load::Weight& weight) { return folder->files.weights->read(weight); };
  model.release = [folder](std::span<const std::byte> bytes) { folder->files.weights->release(bytes); };
  model.owner = folder;
  return model;
}

}  // namespace weir::quantise
