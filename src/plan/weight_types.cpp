#include <algorithm>
#include <array>
#include <string>

#include "plan/model_card.h"

namespace weir::plan {
namespace {

struct Named {
  const char* name;
  double linear, embedding, head;
  double compute = 16;
  bool integer = false;
};

// Bits a weight, scales included. GGUF's mixes: the blocks' own sizes, weighed as llama.cpp's rules of choice share
// them among a Llama's layers (Q4_K_M: half of the layers keep value and down projections in Q6_K).
constexpr std::array kTypes = {
    Named{"bf16", 16, 16, 16},
    Named{"fp16", 16, 16, 16},
    Named{"f32", 32, 32, 32, 32},
    Named{"fp8", 8, 16, 16, 8},
    Named{"fp8_block", 8 + 32.0 / (128 * 128), 16, 16, 8},  // one F32 scale for 128 x 128
    Named{"int8", 8, 16, 16, 8, true},
    Named{"w8a8", 8, 16, 16, 8, true},
    Named{"nvfp4", 4 + 8.0 / 16, 16, 16, 4},  // an FP8 scale for 16
    Named{"fp4", 4 + 8.0 / 16, 16, 16, 4},
    Named{"mxfp4", 4 + 8.0 / 32, 16, 16},  // an E8M0 scale for 32
    Named{"int4", 4 + 16.0 / 128, 16, 16},
    Named{"int4_wo", 4 + 16.0 / 128, 16, 16},
    Named{"w4a16", 4 + 16.0 / 128, 16, 16},
    Named{"awq", 4 + 20.0 / 128, 16, 16},
    Named{"gptq", 4 + 20.0 / 128, 16, 16},
    Named{"q8_0", 8.5, 8.5, 8.5},
    Named{"q6_k", 6.5625, 6.5625, 6.5625},
    Named{"q5_k_m", 5.65, 5.5, 6.5625},
    Named{"q5_k_s", 5.5, 5.5, 6.5625},
    Named{"q5_0", 5.5, 5.5, 6.5625},
    Named{"q5_1", 6, 6, 6.5625},
    Named{"q4_k_m", 4.8, 4.5, 6.5625},
    Named{"q4_k_s", 4.57, 4.5, 6.5625},
    Named{"q4_0", 4.5, 4.5, 6.5625},
    Named{"q4_1", 5, 5, 6.5625},
    Named{"iq4_xs", 4.25, 4.25, 6.5625},
    Named{"q3_k_m", 3.84, 3.4375, 6.5625},
    Named{"q2_k", 2.96, 2.625, 6.5625},
};

}  // namespace

Result<WeightTypes> parse_weight_types(const std::string& name) {
  std::string key;
  for (const char c : name.substr(0, 40))
    key += c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const auto* found = std::ranges::find_if(kTypes, [&](const Named& one) { return key == one.name; });
  if (found != kTypes.end())
    return WeightTypes{found->linear, found->linear,  found->embedding, found->head,
                       key,           found->compute, found->integer};
  std::string all;
  for (const Named& one : kTypes) all += (all.empty() ? "" : ", ") + std::string(one.name);
  return fail(ErrorCode::kInvalidArgument, "\"{}\" is no type of weights; known: {}", name.substr(0, 40), all);
}

double WeightTypes::bits(const CardTensor& tensor) const {
  const double plain = std::clamp(linear_bits, 16.0, 32.0);
  if (tensor.columns == 1 || tensor.role == TensorRole::kNorm || tensor.role == TensorRole::kRouter) return plain;
  switch (tensor.role) {
    case TensorRole::kEmbedding:
      return embedding_bits;
    case TensorRole::kHead:
      return head_bits;
    case TensorRole::kExperts:
      return expert_bits;
    default:
      return linear_bits;
  }
}

}  // namespace weir::plan
