// The mixes are llama.cpp's, so that a file of some kind is what people expect of the name.
#include "quantise/type_mix.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

namespace weir::quantise {
namespace {

using std::int64_t;
using tensor::DType;

constexpr std::array kKinds = {
    FileKind{"F32", DType::kF32, 0},      FileKind{"F16", DType::kF16, 1},
    FileKind{"BF16", DType::kBF16, 32},   FileKind{"Q8_0", DType::kQ8_0, 7},
    FileKind{"Q4_0", DType::kQ4_0, 2},    FileKind{"Q4_1", DType::kQ4_1, 3},
    FileKind{"Q5_0", DType::kQ5_0, 8},    FileKind{"Q5_1", DType::kQ5_1, 9},
    FileKind{"Q2_K", DType::kQ2_K, 10},   FileKind{"Q3_K_S", DType::kQ3_K, 11},
    FileKind{"Q3_K_M", DType::kQ3_K, 12}, FileKind{"Q3_K_L", DType::kQ3_K, 13},
    FileKind{"Q4_K_S", DType::kQ4_K, 14}, FileKind{"Q4_K_M", DType::kQ4_K, 15},
    FileKind{"Q5_K_S", DType::kQ5_K, 16}, FileKind{"Q5_K_M", DType::kQ5_K, 17},
    FileKind{"Q6_K", DType::kQ6_K, 18},   FileKind{"MXFP4_MOE", DType::kMXFP4, 38},
};

bool is_k(DType type) {
  return tensor::info(type).block_elements == 256;
}

// "blk.N.REST": N and REST; -1 for tensors of no layer.
std::pair<int, std::string_view> split_name(std::string_view name) {
  if (!name.starts_with("blk.")) return {-1, name};
  int layer = -1;
  const std::string_view rest = name.substr(4);
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), layer);
  if (error != std::errc() || end == rest.data() + rest.size()) return {-1, name};
  return {layer, std::string_view(end + 1, rest.data() + rest.size())};
}

// The layers at both ends, and every third between.
bool sensitive(int layer, int layers) {
  return layer < layers / 8 || layer >= 7 * layers / 8 || (layer - layers / 8) % 3 == 2;
}

// Vectors, routers and what is no plain matrix stay floats.
bool stays_float(const TensorFacts& tensor) {
  if (tensor.shape.size() < 2 || !tensor.name.ends_with(".weight")) return true;
  for (const std::string_view part :
       {"_norm.", "ffn_gate_inp", "ssm_conv1d", "attn_sinks", "pos_embd", "token_types"}) {
    if (tensor.name.find(part) != std::string_view::npos) return true;
  }
  return false;
}

// For rows that are no whole blocks: the nearest type with smaller ones.
DType fitting(DType type, int64_t columns) {
  if (is_k(type) && columns % 256 != 0) {
    type = type == DType::kQ4_K   ? DType::kQ5_0
           : type == DType::kQ5_K ? DType::kQ5_1
           : type == DType::kQ6_K ? DType::kQ8_0
                                  : DType::kQ4_0;
  }
  return columns % tensor::info(type).block_elements == 0 ? type : DType::kF16;
}

// The type of a layer's matrix where a kind of file has wider ones.
DType mixed(const FileKind& kind, int layer, std::string_view part, const TensorFacts& tensor) {
  const bool value = part == "attn_v.weight" || part == "attn_qkv.weight", down = part.starts_with("ffn_down"),
             output = part == "attn_output.weight";
  const int layers = tensor.layers;
  if (kind.name == "Q2_K") {
    if (value && part == "attn_v.weight") return tensor.queries_per_kv_head >= 4 ? DType::kQ4_K : DType::kQ3_K;
    if (down || output) return DType::kQ3_K;
  } else if (kind.name == "Q3_K_M") {
    if (part == "attn_v.weight") return layer < 2 ? DType::kQ5_K : DType::kQ4_K;
    if (down) return layer < layers / 16 ? DType::kQ5_K : sensitive(layer, layers) ? DType::kQ4_K : DType::kQ3_K;
    if (output) return DType::kQ4_K;
  } else if (kind.name == "Q3_K_L") {
    if (value || down || output) return DType::kQ5_K;
  } else if (kind.name == "Q4_K_S") {
    if (part == "attn_v.weight" && layer < 4) return DType::kQ5_K;
    if (down && layer < layers / 8) return DType::kQ5_K;
  } else if (kind.name == "Q4_K_M" || kind.name == "Q5_K_M") {
    if ((part == "attn_v.weight" || down) && sensitive(layer, layers)) return DType::kQ6_K;
  }
  return kind.base;
}

}  // namespace

const FileKind* find_kind(std::string_view name) {
  std::string upper(name);
  std::ranges::transform(upper, upper.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  if (upper == "MXFP4") upper = "MXFP4_MOE";
  if (upper == "Q3_K" || upper == "Q4_K" || upper == "Q5_K") upper += "_M";
  const auto* found = std::ranges::find(kKinds, upper, &FileKind::name);
  return found == kKinds.end() ? nullptr : found;
}

std::string kind_names() {
  std::string names;
  for (const FileKind& kind : kKinds) names += (names.empty() ? "" : ", ") + std::string(kind.name);
  return names;
}

DType type_for(const FileKind& kind, const TensorFacts& tensor) {
  if (stays_float(tensor)) return DType::kF32;
  if (!tensor::is_quantised(kind.base)) return kind.base;
  const int64_t columns = tensor.shape.back();
  const auto [layer, part] = split_name(tensor.name);
  const bool head = tensor.name == "output.weight" || (tensor.tied && tensor.name == "token_embd.weight");
  if (kind.base == DType::kMXFP4)
    return fitting(part.find("_exps") != std::string_view::npos ? DType::kMXFP4 : DType::kQ8_0, columns);
  if (head) return fitting(kind.base == DType::kQ8_0 || columns % 256 != 0 ? DType::kQ8_0 : DType::kQ6_K, columns);
  return fitting(layer < 0 ? kind.base : mixed(kind, layer, part, tensor), columns);
}

}  // namespace weir::quantise
