// Element types and their memory layout: plain floats and the quantised block formats of GGUF. Layout only; arithmetic
// on them is backend/cpu's. Facts: GGUF specification; block layouts as in ggml's quantisation formats.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace weir::tensor {

enum class DType : std::uint8_t {
  kF32,
  kF16,
  kBF16,
  kI32,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,  // blocks of 32 elements
  kQ4_K,
  kQ5_K,
  kQ6_K,  // blocks of 256 elements
  kQ2_K,
  kQ3_K,
  kIQ4_NL,
  kIQ4_XS,
  kTQ1_0,
  kTQ2_0,
  kMXFP4,
  kNVFP4,
  kIQ2_XXS,
  kIQ2_XS,
  kIQ2_S,
  kIQ3_XXS,
  kIQ3_S,
  kIQ1_S,
  kIQ1_M,
  kInt4,  // BlockInt4 and following: what the quantised weights of Hugging Face folders are made into while loading
  kInt8,
  kFloat8,
};

struct DTypeInfo {
  std::string_view name;        // as people write it: "Q4_K"
  std::int64_t block_elements;  // 1 for plain types
  std::int64_t block_bytes;
};

const DTypeInfo& info(DType type);

inline bool is_quantised(DType type) {
  return info(type).block_elements > 1;
}

// Bytes of one row of `elements` values. `elements` must be a multiple of block_elements (the loader has checked it).
std::int64_t row_bytes(DType type, std::int64_t elements);

// By name, any case ("q4_k", "bf16"); nullopt when weir has no such type.
std::optional<DType> parse_dtype(std::string_view name);

struct BlockQ4_0 {
  std::uint16_t d;
  std::uint8_t qs[16];
};  // w = d (q - 8)
struct BlockQ4_1 {
  std::uint16_t d, m;
  std::uint8_t qs[16];
};  // w = d q + m
struct BlockQ5_0 {
  std::uint16_t d;
  std::uint8_t qh[4];
  std::uint8_t qs[16];
};  // w = d (q - 16)
struct BlockQ5_1 {
  std::uint16_t d, m;
  std::uint8_t qh[4];
  std::uint8_t qs[16];
};  // w = d q + m
struct BlockQ8_0 {
  std::uint16_t d;
  std::int8_t qs[32];
};  // w = d q
struct BlockQ4_K {
  std::uint16_t d, dmin;
  std::uint8_t scales[12];
  std::uint8_t qs[128];
};  // w = d sc q - dmin mn
struct BlockQ5_K {
  std::uint16_t d, dmin;
  std::uint8_t scales[12];
  std::uint8_t qh[32];
  std::uint8_t qs[128];
};
struct BlockQ6_K {
  std::uint8_t ql[128];
  std::uint8_t qh[64];
  std::int8_t scales[16];
  std::uint16_t d;
};

// Blocks that no file has. Of groups of 64, 128, ... weights with one scale each of their blocks of 32 repeats it.
#pragma pack(push, 1)
struct BlockInt4 {
  float d;
  std::int16_t zero;
  std::uint8_t qs[16];  // weight j in the lower half of byte j, j + 16 in the upper
};  // w = d (q - zero)
struct BlockInt8 {
  float d;
  std::int16_t zero;
  std::uint8_t qs[32];
};  // w = d (q - zero)
struct BlockFloat8 {
  float d;
  std::uint8_t qs[32];  // E4M3 without infinities
};  // w = d q
#pragma pack(pop)

static_assert(sizeof(BlockInt4) == 22 && sizeof(BlockInt8) == 38 && sizeof(BlockFloat8) == 36);
static_assert(sizeof(BlockQ4_0) == 18 && sizeof(BlockQ4_1) == 20 && sizeof(BlockQ5_0) == 22 && sizeof(BlockQ5_1) == 24);
static_assert(sizeof(BlockQ8_0) == 34 && sizeof(BlockQ4_K) == 144 && sizeof(BlockQ5_K) == 176 &&
              sizeof(BlockQ6_K) == 210);

}  // namespace weir::tensor
