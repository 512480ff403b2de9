#include "load/tensor_map.h"

#include <algorithm>
#include <charconv>
#include <unordered_map>

#include "base/check.h"

namespace weir::load {
namespace {

// "blk.3.ffn_up.17.weight" taken apart: layer 3, key "ffn_up.#", number 17, ending ".weight".
struct LayerName {
  std::string_view layer;
  std::string key;
  std::string_view number;  // empty: none
  std::string_view ending;
};

bool is_number(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

LayerName take_apart(std::string_view name) {
  LayerName parts;
  const std::size_t layer_begin = name.find('.') + 1, layer_end = name.find('.', layer_begin), ending = name.rfind('.');
  CHECK(layer_end != std::string_view::npos && ending > layer_end, "{} is no name of a layer's tensor", name);
  parts.layer = name.substr(layer_begin, layer_end - layer_begin);
  parts.ending = name.substr(ending);
  const std::string_view stem = name.substr(layer_end + 1, ending - layer_end - 1);
  const std::size_t last = stem.rfind('.');
  if (last != std::string_view::npos && is_number(stem.substr(last + 1))) {
    parts.number = stem.substr(last + 1);
    parts.key = std::string(stem.substr(0, last)) + ".#";
  } else {
    parts.key = stem;
  }
  return parts;
}

std::string with_number(std::string_view pattern, std::string_view number) {
  std::string name(pattern);
  const std::size_t at = name.find('#');
  if (at != std::string::npos) name.replace(at, 1, number);
  return name;
}

bool has_ending(std::string_view name) {
  return name.ends_with(".weight") || name.ends_with(".bias");
}

// Which canonical tensors there are, for the sizes of what is fused and stacked.
class Inventory {
 public:
  explicit Inventory(const std::vector<ExpectedTensor>& expected) {
    for (const ExpectedTensor& tensor : expected) {
      shapes_.emplace(tensor.name, &tensor.shape);
      if (!tensor.name.starts_with("blk.")) continue;
      const LayerName parts = take_apart(tensor.name);
      if (!parts.number.empty()) ++counts_[stack_name(parts.layer, parts.key, parts.ending)];
    }
  }
  const std::vector<std::int64_t>& shape(const std::string& name) const {
    const auto found = shapes_.find(name);
    CHECK(found != shapes_.end(), "{} is part of a fused tensor and not expected", name);
    return *found->second;
  }
  std::int64_t count(std::string_view layer, std::string_view key, std::string_view ending) const {
    return counts_.at(stack_name(layer, key, ending));
  }

 private:
  static std::string stack_name(std::string_view layer, std::string_view key, std::string_view ending) {
    return fmt::format("{}.{}{}", layer, key, ending);
  }
  std::unordered_map<std::string_view, const std::vector<std::int64_t>*> shapes_;
  std::unordered_map<std::string, std::int64_t> counts_;
};

// A tensor that is a file's tensor of its own.
void place_alone(ExpectedTensor& tensor, std::string file_name) {
  TensorPlace& place = tensor.place;
  place.file_name = std::move(file_name);
  place.file_shape = tensor.shape;
  place.slice_rows = tensor.shape[0];
  place.slice_cols = tensor.shape.size() > 1 ? tensor.shape[1] : 1;
  place.rows = {0, tensor.shape[0], tensor.shape[0]};
}

void place_part(ExpectedTensor& tensor, const LayerName& name, const TensorMap::Fused& rule, const Inventory& all) {
  TensorPlace& place = tensor.place;
  const bool matrix = tensor.shape.size() > 1;
  std::int64_t rows = 0, before = 0, own = 0;
  for (const std::string& part : rule.parts) {
    std::string canonical = fmt::format("blk.{}.{}", name.layer, with_number(part, name.number));
    if (!has_ending(part)) canonical += name.ending;
    const bool turned = std::ranges::find(rule.transposed_parts, part) != rule.transposed_parts.end();
    const std::int64_t part_rows = all.shape(canonical)[turned ? 1 : 0];
    CHECK(part_rows % rule.groups == 0, "{} has {} rows in {} groups", canonical, part_rows, rule.groups);
    if (canonical == tensor.name) {
      before = rows;
      own = part_rows;
      place.part_transposed = turned;
    }
    rows += part_rows;
  }
  const std::int64_t cols = !matrix ? 1 : tensor.shape[place.part_transposed ? 0 : 1];
  place.rows = {before / rule.groups, own / rule.groups, rows / rule.groups};
  place.slice_transposed = rule.slice_transposed && matrix;
  place.slice_rows = place.slice_transposed ? cols : rows;
  place.slice_cols = place.slice_transposed ? rows : cols;
  place.file_shape = {place.slice_rows};
  if (matrix) place.file_shape.push_back(place.slice_cols);
  if (rule.stacked) {
    place.slices = all.count(name.layer, name.key, name.ending);
    const auto parsed = std::from_chars(name.number.data(), name.number.data() + name.number.size(), place.slice);
    CHECK(parsed.ec == std::errc(), "{}", tensor.name);
    if (rule.flat) {
      place.file_shape.front() *= place.slices;
    } else {
      place.file_shape.insert(place.file_shape.begin(), place.slices);
    }
  }
}

}  // namespace

TensorMap& TensorMap::global(std::string canonical, std::string file) {
  globals_.emplace_back(std::move(canonical), std::move(file));
  return *this;
}

TensorMap& TensorMap::name(std::string canonical, std::string file) {
  return fused({.file = std::move(file), .parts = {std::move(canonical)}});
}

TensorMap& TensorMap::stacked(std::string canonical, std::string file) {
  return fused({.file = std::move(file), .parts = {std::move(canonical)}, .stacked = true});
}

TensorMap& TensorMap::fused(const Fused& rule) {
  for (const std::string& part : rule.parts) rules_.push_back({part, rule});
  return *this;
}

const TensorMap::Rule* TensorMap::find(std::string_view key, std::string_view ending) const {
  const auto fits = [&](const Rule& rule) {
    return has_ending(rule.canonical) ? rule.canonical == fmt::format("{}{}", key, ending) : rule.canonical == key;
  };
  const auto found = std::find_if(rules_.rbegin(), rules_.rend(), fits);
  return found == rules_.rend() ? nullptr : &*found;
}

void TensorMap::place(std::vector<ExpectedTensor>& expected) const {
  const Inventory all(expected);
  for (ExpectedTensor& tensor : expected) {
    if (!tensor.name.starts_with("blk.")) {
      const auto found = std::find_if(globals_.rbegin(), globals_.rend(),
                                      [&](const auto& entry) { return entry.first == tensor.name; });
      place_alone(tensor, found == globals_.rend() ? tensor.name : found->second);
      continue;
    }
    const LayerName name = take_apart(tensor.name);
    const Rule* rule = find(name.key, name.ending);
    const std::string stem = rule == nullptr ? name.key : rule->fused.file;
    std::string file_name = fmt::format("{}{}.{}", layer_prefix_, name.layer, with_number(stem, name.number));
    if (rule == nullptr || !has_ending(rule->canonical)) file_name += name.ending;
    if (rule == nullptr) {
      place_alone(tensor, std::move(file_name));
    } else {
      place_part(tensor, name, rule->fused, all);
      tensor.place.file_name = std::move(file_name);
    }
  }
}

}  // namespace weir::load
