#include "plan/model_card.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <initializer_list>
#include <map>

#include "base/printable.h"
#include "load/gguf_config.h"
#include "load/hf_config.h"
#include "load/json_fields.h"
#include "load/safetensors.h"
#include "plan/card_config.h"
#include "plan/card_tensors.h"
#include "plan/known_models.h"

namespace weir::plan {
namespace {

constexpr std::size_t kLongestName = 200;  // of what a file or a folder calls its model

using nlohmann::json;

Result<ModelCard> card_of_config(const json& published, const std::string& file) {
  ModelCard card;
  auto [config, note] = card_config(published);
  card.note = note;
  WEIR_TRY(auto parsed, load::spec_from_config(config, file));
  card.spec = std::move(parsed.spec);
  card.tensors = card_tensors(card.spec, parsed.biases);
  WEIR_TRY(card.types, weight_types_of_config(config, file));
  card.weight_bytes = static_cast<std::int64_t>(card.bytes_as(card.types));
  return card;
}

// What files hold of a role.
struct Held {
  double bytes = 0, elements = 0;
  double bits(double otherwise) const { return elements > 0 ? 8 * bytes / elements : otherwise; }
};

// Of tensors by canonical names or GGUF's.
class Tally {
 public:
  void add(std::string_view name, const std::vector<std::int64_t>& shape, std::int64_t bytes) {
    total_ += bytes;
    double elements = 1;
    for (const std::int64_t extent : shape) elements *= static_cast<double>(extent);
    Held& held = shape.size() < 2 ? vectors_ : by_role_[role_of(name)];
    held.bytes += static_cast<double>(bytes);
    held.elements += elements;
  }

  std::int64_t total() const { return total_; }
  WeightTypes types(std::string name) {
    Held linear;
    for (const TensorRole role : {TensorRole::kAttention, TensorRole::kFfn, TensorRole::kSharedExpert}) {
      linear.bytes += by_role_[role].bytes;
      linear.elements += by_role_[role].elements;
    }
    WeightTypes types;
    types.linear_bits = linear.bits(16);
    types.expert_bits = by_role_[TensorRole::kExperts].bits(types.linear_bits);
    types.embedding_bits = by_role_[TensorRole::kEmbedding].bits(16);
    types.head_bits = by_role_[TensorRole::kHead].bits(types.embedding_bits);
    types.name = std::move(name);
    return types;
  }

 private:
  std::map<TensorRole, Held> by_role_;
  Held vectors_;
  std::int64_t total_ = 0;
};

// The number in "blk.17.x" or "model.layers.17.x"; -1: none.
int layer_of(std::string_view name, std::string_view prefix) {
  const auto at = name.find(prefix);
  if (at == std::string_view::npos) return -1;
  const std::string_view rest = name.substr(at + prefix.size());
  int layer = -1;
  std::from_chars(rest.data(), rest.data() + rest.size(), layer);
  return layer;
}

// Biases that a GGUF family may have: as the first layer of this file has them.
void settle_biases(const load::GgufFile& gguf, load::Biases& biases) {
  const auto settle = [&](load::Presence& presence, std::initializer_list<std::string_view> names) {
    if (presence != load::Presence::kOptional) return;
    const bool there = std::ranges::any_of(names, [&](std::string_view name) {
      return std::ranges::find(gguf.tensors(), name, &load::Weight::name) != gguf.tensors().end();
    });
    presence = there ? load::Presence::kRequired : load::Presence::kAbsent;
  };
  settle(biases.qkv, {"blk.0.attn_q.bias", "blk.0.attn_qkv.bias"});
  settle(biases.attention_output, {"blk.0.attn_output.bias"});
  settle(biases.ffn, {"blk.0.ffn_up.bias"});
}

Result<ModelCard> card_of_gguf(const std::string& path) {
  ModelCard card;
  WEIR_TRY(const auto gguf, load::GgufFile::open(path));
  WEIR_TRY(auto parsed, load::spec_from_gguf(*gguf, path));
  settle_biases(*gguf, parsed.biases);
  card.spec = std::move(parsed.spec);
  card.tensors = card_tensors(card.spec, parsed.biases);
  Tally tally;
  const auto add = [&](std::string_view name, const std::vector<std::int64_t>& shape, std::int64_t bytes) {
    if (layer_of(name, "blk.") < card.spec.layers) tally.add(name, shape, bytes);
  };
  std::map<std::string, std::int64_t> by_type;
  for (const load::Weight& weight : gguf->tensors()) {
    add(weight.name, weight.shape, static_cast<std::int64_t>(weight.data.size()));
    by_type[std::string(tensor::info(weight.dtype).name)] += static_cast<std::int64_t>(weight.data.size());
  }
  for (const load::UnsupportedTensor& other : gguf->unsupported_tensors()) {
    add(other.name, other.shape, other.bytes);
    by_type[other.type] += other.bytes;
  }
  const auto most = std::ranges::max_element(by_type, {}, [](const auto& entry) { return entry.second; });
  card.types = tally.types(most == by_type.end() ? "gguf" : "mostly " + most->first);
  card.weight_bytes = tally.total();
  card.exact_bytes = true;
  return card;
}

// The weight files beside a config.json, where they are. They say nothing new of quantised matrices, whose parts have
// names of their own; plain ones may be of another type than the configuration states.
Status count_folder(const std::string& folder, ModelCard& card) {
  std::error_code ignored;
  const auto has = [&](const char* name) { return std::filesystem::exists(folder + "/" + name, ignored); };
  if (!has("model.safetensors") && !has("model.safetensors.index.json")) return {};
  const auto files = load::Safetensors::open(folder);
  if (!files && files.error().code == ErrorCode::kNotFound) return {};  // an index without its files
  if (!files) return tl::unexpected(files.error());
  std::int64_t bytes = 0;
  double wide = 0, all = 0;
  const auto add = [&](const std::string& name, std::int64_t size, bool f32) {
    if (layer_of(name, "layers.") >= card.spec.layers || name.starts_with("mtp.")) return;
    if (card.spec.tied_embeddings && name == "lm_head.weight") return;
    bytes += size;
    all += static_cast<double>(size);
    wide += f32 ? static_cast<double>(size) : 0;
  };
  for (const load::Weight& weight : (*files)->tensors())
    add(weight.name, static_cast<std::int64_t>(weight.data.size()), weight.dtype == tensor::DType::kF32);
  for (const load::UnsupportedTensor& other : (*files)->unsupported_tensors()) add(other.name, other.bytes, false);
  if (wide > 0.5 * all) card.types = {32, 32, 32, 32, "f32", 32};
  card.weight_bytes = bytes;
  card.exact_bytes = true;
  return {};
}

Result<ModelCard> card_of_file(const std::string& path) {
  WEIR_TRY(const auto text, load::read_text_file(path, load::kMaxConfigBytes));
  WEIR_TRY(const auto config, load::parse_json(text, path));
  return card_of_config(config, path);
}

Result<ModelCard> card_of_folder(const std::string& folder) {
  const std::string path = folder + "/config.json";
  if (std::error_code ignored; !std::filesystem::exists(path, ignored)) {
    return fail(ErrorCode::kNotFound, "{}: a folder without a config.json; give a Hugging Face folder or a GGUF file",
                folder);
  }
  WEIR_TRY(auto card, card_of_file(path));
  WEIR_RETURN_IF_ERROR(count_folder(folder, card));
  return card;
}

Result<ModelCard> card_of_name(const std::string& name) {
  WEIR_TRY(const auto known, find_known_model(name));
  WEIR_TRY(auto card, card_of_config(known.model->config, known.model->name));
  card.name = known.model->name;
  if (known.types.empty()) return card;
  WEIR_TRY(card.types, parse_weight_types(known.types));
  card.weight_bytes = static_cast<std::int64_t>(card.bytes_as(card.types));
  return card;
}

std::string last_part(const std::string& path) {
  std::error_code error;
  const auto whole = std::filesystem::weakly_canonical(path, error);
  return error || whole.filename().empty() ? path : whole.filename().string();
}

}  // namespace

double ModelCard::parameters() const {
  double total = 0;
  for (const CardTensor& tensor : tensors) total += static_cast<double>(tensor.elements());
  return total;
}

double ModelCard::active_parameters() const {
  const double used = spec.experts.count > 0 ? static_cast<double>(spec.experts.used) / spec.experts.count : 1;
  double total = 0;
  for (const CardTensor& tensor : tensors) {
    if (tensor.role == TensorRole::kEmbedding && !spec.tied_embeddings) continue;
    total += static_cast<double>(tensor.elements()) * (tensor.role == TensorRole::kExperts ? used : 1);
  }
  return total;
}

double ModelCard::bytes_as(const WeightTypes& as) const {
  double bits = 0;
  for (const CardTensor& tensor : tensors) bits += static_cast<double>(tensor.elements()) * as.bits(tensor);
  return bits / 8;
}

Result<ModelCard> read_model_card(const std::string& model) {
  std::error_code error;
  const auto status = std::filesystem::status(model, error);
  if (!std::filesystem::exists(status)) return card_of_name(model);
  const bool folder = std::filesystem::is_directory(status);
  auto card = folder ? card_of_folder(model) : model.ends_with(".json") ? card_of_file(model) : card_of_gguf(model);
  if (!card) return card;
  if (card->name.empty()) card->name = card->spec.name;
  if (card->name.empty()) {
    const auto parent = std::filesystem::path(model).parent_path().string();
    card->name = last_part(!folder && model.ends_with("config.json") && !parent.empty() ? parent : model);
  }
  card->name = printable(card->name.substr(0, kLongestName));
  return card;
}

std::vector<std::string> known_models() {
  std::vector<std::string> names;
  for (const KnownModel& known : known_model_table()) names.push_back(known.name);
  return names;
}

}  // namespace weir::plan
