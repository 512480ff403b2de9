#include "load/tensor_tree.h"

#include <algorithm>
#include <charconv>
#include <map>

namespace weir::load {
namespace {

struct Place {
  std::int64_t layer = -1;
  std::size_t behind = 0;  // where the name goes on
};

Place place_of(std::string_view name) {
  for (std::size_t begin = 0; begin < name.size();) {
    const std::size_t end = std::min(name.find('.', begin), name.size());
    std::int64_t layer = 0;
    const auto [stop, error] = std::from_chars(name.data() + begin, name.data() + end, layer);
    if (error == std::errc() && stop == name.data() + end && layer >= 0) return {layer, std::min(end + 1, name.size())};
    begin = end + 1;
  }
  return {};
}

bool same_shape(const TensorGroup& a, const TensorGroup& b) {
  return std::ranges::equal(a.tensors, b.tensors, [](const UnsupportedTensor& x, const UnsupportedTensor& y) {
    return name_in_layer(x.name) == name_in_layer(y.name) && x.type == y.type && x.shape == y.shape;
  });
}

}  // namespace

std::string_view name_in_layer(std::string_view name) {
  return name.substr(place_of(name).behind);
}

std::vector<TensorGroup> tensor_tree(std::span<const UnsupportedTensor> tensors) {
  std::map<std::int64_t, TensorGroup> layers;
  for (const UnsupportedTensor& tensor : tensors) {
    const std::int64_t layer = place_of(tensor.name).layer;
    TensorGroup& group = layers[layer];
    group.first_layer = group.last_layer = layer;
    group.bytes += tensor.bytes;
    group.tensors.push_back(tensor);
  }
  std::vector<TensorGroup> tree;
  for (auto& [layer, group] : layers) {
    // The order within a layer is the file's, and may differ from layer to layer.
    if (layer >= 0) {
      std::ranges::stable_sort(group.tensors, {},
                               [](const UnsupportedTensor& tensor) { return name_in_layer(tensor.name); });
    }
    if (!tree.empty() && layer > 0 && tree.back().last_layer == layer - 1 && same_shape(tree.back(), group)) {
      tree.back().last_layer = layer;
    } else {
      tree.push_back(std::move(group));
    }
  }
  return tree;
}

}  // namespace weir::load
