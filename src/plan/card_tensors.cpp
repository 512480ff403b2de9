#include "plan/card_tensors.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <string>

#include "load/expected_tensors.h"

namespace weir::plan {
namespace {

struct Name {
  std::string base;  // "ffn_up", "attn_q.bias"
  bool numbered = false;
};

// "blk.0.ffn_up.17.weight" -> ffn_up, numbered.
Name parts_of(std::string_view name) {
  if (name.starts_with("blk.")) {
    name.remove_prefix(4);
    const auto dot = name.find('.');
    name.remove_prefix(dot == std::string_view::npos ? name.size() : dot + 1);
  }
  const bool bias = name.ends_with(".bias");
  if (const auto dot = name.rfind('.'); dot != std::string_view::npos) name = name.substr(0, dot);
  Name parts;
  if (const auto dot = name.rfind('.'); dot != std::string_view::npos && dot + 1 < name.size()) {
    const std::string_view last = name.substr(dot + 1);
    parts.numbered = std::ranges::all_of(last, [](char c) { return c >= '0' && c <= '9'; });
    if (parts.numbered) name = name.substr(0, dot);
  }
  parts.base = std::string(name) + (bias ? ".bias" : "");
  return parts;
}

// The tensors of `expected` with those that differ only in number taken together.
std::vector<CardTensor> gather(const std::vector<load::ExpectedTensor>& expected) {
  std::vector<CardTensor> tensors;
  std::map<std::string, std::size_t> numbered;
  for (const load::ExpectedTensor& one : expected) {
    if (one.presence != load::Presence::kRequired) continue;
    const Name name = parts_of(one.name);
    CardTensor tensor;
    tensor.name = name.base;
    tensor.role = role_of(one.name);
    tensor.rows = one.shape.front();
    tensor.columns = one.shape.size() > 1 ? one.shape.back() : 1;
    if (name.numbered) {
      const auto [place, first] = numbered.try_emplace(name.base, tensors.size());
      if (!first) {
        CardTensor& all = tensors[place->second];
        if (all.role == TensorRole::kExperts) {
          all.count += 1;
        } else {
          all.rows += tensor.rows;
        }
        continue;
      }
    }
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

}  // namespace

TensorRole role_of(std::string_view full_name) {
  const Name parts = parts_of(full_name);
  const std::string_view name = parts.base;
  if (name.starts_with("token_embd")) return TensorRole::kEmbedding;
  if (name == "output" || name == "output.bias") return TensorRole::kHead;
  if (name.find("norm") != std::string_view::npos) return TensorRole::kNorm;
  if (name.find("_shexp") != std::string_view::npos) return TensorRole::kSharedExpert;
  if (name.starts_with("ffn_gate_inp") || name.starts_with("exp_probs_b")) return TensorRole::kRouter;
  if (name.starts_with("ffn_")) {
    return parts.numbered || name.find("_exps") != std::string_view::npos ? TensorRole::kExperts : TensorRole::kFfn;
  }
  return TensorRole::kAttention;
}

std::vector<CardTensor> card_tensors(const load::ModelSpec& spec, const load::Biases& biases) {
  load::ModelSpec one = spec;
  one.layers = 0;
  one.layer.clear();
  const auto outside = gather(load::expected_tensors(one, biases));
  one.layers = 1;
  one.layer.resize(1);
  std::vector<CardTensor> tensors;
  const auto add_outside = [&](bool embedding) {
    for (const CardTensor& tensor : outside) {
      if ((tensor.role == TensorRole::kEmbedding) == embedding) tensors.push_back(tensor);
    }
  };
  add_outside(true);
  std::map<std::pair<load::Mixer, bool>, std::vector<CardTensor>> kinds;
  for (std::size_t i = 0; i < spec.layer.size(); ++i) {
    const load::LayerSpec& layer = spec.layer[i];
    auto [kind, is_new] = kinds.try_emplace({layer.mixer, layer.sparse});
    if (is_new) {
      one.layer[0] = layer;
      for (CardTensor& tensor : gather(load::expected_tensors(one, biases))) {
        const bool outer = std::ranges::any_of(outside, [&](const CardTensor& o) { return o.name == tensor.name; });
        if (!outer) kind->second.push_back(std::move(tensor));
      }
    }
    for (CardTensor tensor : kind->second) {
      tensor.layer = static_cast<int>(i);
      tensors.push_back(std::move(tensor));
    }
  }
  add_outside(false);
  return tensors;
}

}  // namespace weir::plan
