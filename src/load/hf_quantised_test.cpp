// tests/e2e/golden_test.py.
#include "load/hf_quantised.h"

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <nlohmann/json.hpp>

namespace weir::load {
namespace {

using nlohmann::json;
using std::int64_t;

// A folder in memory.
class Parts {
 public:
  template <class T>
  Parts& add(const std::string& name, const std::string& type, std::vector<int64_t> shape,
             const std::vector<T>& values) {
    auto& bytes = memory().emplace_back(values.size() * sizeof(T));
    if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
    if (type == "F32" || type == "F16") {
      const auto dtype = type == "F32" ? tensor::DType::kF32 : tensor::DType::kF16;
      tensors_.push_back({name, dtype, std::move(shape), bytes});
    } else {
      raw_.push_back({name, type, std::move(shape), static_cast<int64_t>(bytes.size()), bytes});
    }
    return *this;
  }
  Parts& remove(const std::string& name) {
    std::erase_if(tensors_, [&](const Weight& w) { return w.name == name; });
    std::erase_if(raw_, [&](const UnsupportedTensor& t) { return t.name == name; });
    return *this;
  }
  Result<FolderTensors> derive(const json& settings, bool as_floats = false, bool exact = false) const {
    return derive_quantised(
        json{{"quantization_config", settings}}, "config.json", {tensors_, raw_},
        {.as_floats = [as_floats](std::string_view) { return as_floats; }, .release = [](auto) {}, .exact = exact});
  }
  void refused(const json& settings, std::string_view part, ErrorCode code = ErrorCode::kCorruptFile) const {
    const auto found = derive(settings);
    ASSERT_FALSE(found) << settings;
    EXPECT_EQ(found.error().code, code) << found.error().message;
    EXPECT_NE(found.error().message.find(part), std::string::npos) << found.error().message;
  }

 private:
  // For as long as the tests run: what is derived reads it whenever it is fetched.
  static std::deque<std::vector<std::byte>>& memory() {
    static std::deque<std::vector<std::byte>> all;
    return all;
  }

  std::vector<Weight> tensors_;
  std::vector<UnsupportedTensor> raw_;
};

std::vector<float> floats_of(const FolderTensors& folder, std::size_t index = 0) {
  const Weight& weight = folder.derived->tensors()[index];
  EXPECT_EQ(weight.dtype, tensor::DType::kF32);
  EXPECT_TRUE(folder.derived->fetch(weight.data));
  std::vector<float> values(weight.data.size() / 4);
  std::memcpy(values.data(), weight.data.data(), weight.data.size());
  return values;
}

const json kGptq = {{"quant_method", "gptq"}, {"bits", 4}, {"group_size", 8}};

// 16 inputs in two groups, 8 outputs; codes count up along the inputs.
Parts gptq() {
  std::vector<std::uint32_t> codes(16);
  for (std::size_t i = 0; i < 16; ++i) codes[i] = i < 8 ? 0x76543210u : 0xfedcba98u;
  std::vector<float> scales(16);
  for (std::size_t i = 0; i < 16; ++i) scales[i] = i < 8 ? 1.0f : 0.5f;
  return Parts()
      .add("a.qweight", "I32", {2, 8}, codes)
      .add("a.qzeros", "I32", {2, 1}, std::vector<std::uint32_t>{0x77777777u, 0xffffffffu})
      .add("a.scales", "F32", {2, 8}, scales);
}

TEST(HfQuantised, GptqZeroPointsAreOneMoreThanStoredAndWrapAround) {
  const auto folder = gptq().derive(kGptq);
  ASSERT_TRUE(folder) << folder.error().message;
  ASSERT_EQ(folder->tensors.size(), 1u);
  EXPECT_EQ(folder->tensors[0].name, "a.weight");
  EXPECT_EQ(folder->tensors[0].shape, (std::vector<int64_t>{8, 16}));
  const auto values = floats_of(*folder);  // groups of 8 are no blocks of 32
  for (int i = 0; i < 16; ++i)
    EXPECT_EQ(values[static_cast<std::size_t>(16 + i)],
              i < 8 ? static_cast<float>(i - 8) : 0.5f * static_cast<float>(i));
  json second = kGptq;
  second["checkpoint_format"] = "gptq_v2";
  EXPECT_EQ(floats_of(*gptq().derive(second))[0], -7.0f);
}

TEST(HfQuantised, ModulesMayHaveGroupsOfTheirOwnSizeWhereTheToolWasToldSo) {
  json other = kGptq;
  other["group_size"] = 16;  // one group of the 16 inputs; there are two
  gptq().refused(other, "do not fit each other");
  for (const char* key : {"dynamic", "extra_config"}) {
    other[key] = {{".*a", {{"group_size", 8}}}};
    const auto own = gptq().derive(other, true), stated = gptq().derive(kGptq, true);
    ASSERT_TRUE(own) << own.error().message;
    EXPECT_EQ(floats_of(*own), floats_of(*stated));
    other.erase(key);
  }
}

TEST(HfQuantised, PartsThatAreMissingOrDoNotFitAreNamed) {
  gptq().remove("a.qzeros").refused(kGptq, "\"a.qzeros\" is missing beside \"a.qweight\"");
  gptq().remove("a.scales").refused(kGptq, "\"a.scales\" is missing");
  gptq()
      .remove("a.qzeros")
      .add("a.qzeros", "I32", {1, 1}, std::vector<int>{0})
      .refused(kGptq, "\"a.qzeros\" I32 [1, 1]");
  gptq().remove("a.qweight").add("a.qweight", "I8", {2, 8}, std::vector<char>(16)).refused(kGptq, "I8 [2, 8]");
  gptq().remove("a.qweight").add("a.qweight", "I32", {2, 0}, std::vector<int>()).refused(kGptq, "do not fit");
  json wide = kGptq;
  wide["group_size"] = 16;
  gptq().refused(wide, "do not fit");
  gptq().add("a.g_idx", "I32", {16}, std::vector<int>(16, 2)).refused(kGptq, "there are 2 groups");
  gptq().add("a.g_idx", "I32", {16}, std::vector<int>(16, -1)).refused(kGptq, "\"a.g_idx\"[0] is -1");
  gptq().add("a.g_idx", "I32", {15}, std::vector<int>(15)).refused(kGptq, "do not fit");
  Parts().add("a.weight", "F8_E4M3", {2, 2}, std::vector<char>(4)).refused({{"quant_method", "fp8"}}, "a.weight_scale");
  Parts()
      .add("a.weight", "F8_E4M3", {4, 4}, std::vector<char>(16))
      .add("a.weight_scale_inv", "F32", {3, 2}, std::vector<float>(6))
      .refused({{"quant_method", "fp8"}, {"weight_block_size", {2, 2}}}, "do not fit");
  Parts()
      .add("a_blocks", "U8", {2, 3, 2, 16}, std::vector<char>(192))
      .add("a_scales", "U8", {2, 3, 1}, std::vector<char>(6))
      .refused({{"quant_method", "mxfp4"}}, "do not fit");
}

TEST(HfQuantised, WhatIsNotSupportedIsNamed) {
  const auto code = ErrorCode::kUnsupported;
  gptq().refused({{"quant_method", "bitsandbytes"}}, "\"bitsandbytes\"", code);
  gptq().refused(json::object(), "supported are fp8", code);
  json five = kGptq, format = kGptq;
  five["bits"] = 5;
  format["checkpoint_format"] = "marlin";
  gptq().refused(five, "5 bits; 2, 3, 4, 8 are supported", code);
  gptq().refused({{"quant_method", "auto-round"}, {"packing_format", "auto_round:fp8"}}, "auto_round:fp8", code);
  gptq().refused(format, "marlin", code);
  gptq().refused({{"quant_method", "awq"}, {"version", "gemv"}}, "gemv", code);
  gptq().refused({{"quant_method", "compressed-tensors"}, {"transform_config", {{"a", 1}}}}, "transform_config", code);
}

// 32 inputs in one group, 32 outputs; code (input + output) mod 8 in three bits, zero point 3 (stored less one).
TEST(HfQuantised, GptqCodesOfThreeBitsCrossWords) {
  const auto put = [](std::vector<std::uint32_t>& words, std::size_t first, std::size_t stride, int i, unsigned code) {
    for (int b = 0; b < 3; ++b) {
      const auto bit = static_cast<std::size_t>(3 * i + b);
      words[first + bit / 32 * stride] |= (code >> b & 1) << (bit % 32);
    }
  };
  std::vector<std::uint32_t> codes(3 * 32), zeros(3);
  for (int output = 0; output < 32; ++output) {
    for (int input = 0; input < 32; ++input)
      put(codes, static_cast<std::size_t>(output), 32, input, static_cast<unsigned>(input + output) % 8);
    put(zeros, 0, 1, output, 2);
  }
  Parts parts;
  parts.add("a.qweight", "I32", {3, 32}, codes)
      .add("a.qzeros", "I32", {1, 3}, zeros)
      .add("a.scales", "F32", {1, 32}, std::vector<float>(32, 0.5f));
  json settings = {{"quant_method", "gptq"}, {"bits", 3}, {"group_size", -1}};
  const auto folder = parts.derive(settings, /*as_floats=*/true);
  ASSERT_TRUE(folder) << folder.error().message;
  const auto values = floats_of(*folder);
  ASSERT_EQ(values.size(), 32u * 32u);
  for (int output = 0; output < 32; ++output) {
    for (int input = 0; input < 32; ++input)
      EXPECT_EQ(values[static_cast<std::size_t>(32 * output + input)],
                0.5f * static_cast<float>((input + output) % 8 - 3));
  }
  // A module may have other bits than most have; its zero points tell.
  settings["bits"] = 4;
  EXPECT_EQ(floats_of(*parts.derive(settings, true)), values);
  // AutoRound writes the same under another name.
  EXPECT_EQ(floats_of(*parts.derive({{"quant_method", "auto-round"}, {"bits", 3}, {"group_size", 32}}, true)), values);
  parts.remove("a.qzeros").add("a.qzeros", "I32", {1, 7}, std::vector<int>(7)).refused(settings, "do not fit");
}

TEST(HfQuantised, GroupsThatAreNoStretchesBecomeFloats) {
  std::vector<int> order(16);
  for (std::size_t i = 0; i < 16; ++i) order[i] = i % 2;
  const auto folder = gptq().add("a.g_idx", "I32", {16}, order).derive(kGptq);
  ASSERT_TRUE(folder) << folder.error().message;
  const auto values = floats_of(*folder);
  for (int i = 0; i < 16; ++i)
    EXPECT_EQ(values[static_cast<std::size_t>(i)],
              i % 2 == 0 ? static_cast<float>(i - 8) : 0.5f * static_cast<float>(i));
  // As wide as the scales are, unless nothing may be rounded.
  const Parts narrow = gptq()
                           .add("a.g_idx", "I32", {16}, order)
                           .remove("a.scales")
                           .add("a.scales", "F16", {2, 8}, std::vector<std::uint16_t>(16));
  EXPECT_EQ(narrow.derive(kGptq)->tensors[0].dtype, tensor::DType::kF16);
  EXPECT_EQ(narrow.derive(kGptq, false, /*exact=*/true)->tensors[0].dtype, tensor::DType::kF32);
}

TEST(HfQuantised, ScalesOfAQuantisedCacheAreReadOverInPlainFoldersToo) {
  const Parts parts = Parts()
                          .add("a.weight", "F32", {1, 1}, std::vector<float>{1})
                          .add("a.k_scale", "F32", {1}, std::vector<float>{1})
                          .add("a.k_proj.v_scale", "F8_E4M3", {1}, std::vector<char>{1});
  const auto folder = parts.derive(nullptr);
  ASSERT_TRUE(folder) << folder.error().message;
  ASSERT_EQ(folder->tensors.size(), 1u);
  EXPECT_EQ(folder->tensors[0].name, "a.weight");
  EXPECT_TRUE(folder->unsupported.empty());
}

TEST(HfQuantised, CompressedCodesMayCrossWords) {
  // 11 weights of 3 bits, one row: code i is i mod 8, so the weights are those less 4.
  std::uint64_t bits = 0;
  for (std::uint64_t i = 0; i < 11; ++i) bits |= (i % 8) << (3 * i);
  const Parts parts =
      Parts()
          .add("a.weight_packed", "I32", {1, 2},
               std::vector<std::uint32_t>{static_cast<std::uint32_t>(bits), static_cast<std::uint32_t>(bits >> 32)})
          .add("a.weight_shape", "I64", {2}, std::vector<int64_t>{1, 11})
          .add("a.weight_scale", "F32", {1, 1}, std::vector<float>{2.0f});
  const auto settings = [](int number) {
    return json{{"quant_method", "compressed-tensors"},
                {"config_groups", {{"g", {{"weights", {{"num_bits", number}}}}}}}};
  };
  const auto folder = parts.derive(settings(3));
  ASSERT_TRUE(folder) << folder.error().message;
  const auto values = floats_of(*folder);
  ASSERT_EQ(values.size(), 11u);
  for (int i = 0; i < 11; ++i) EXPECT_EQ(values[static_cast<std::size_t>(i)], 2.0f * static_cast<float>(i % 8 - 4));
  parts.refused(settings(8), "no packing of 1 x 11 weights of 8 bits", ErrorCode::kCorruptFile);
  parts.refused(settings(99), "num_bits from 1 to 16");
  parts.refused({{"quant_method", "compressed-tensors"}}, "no packing");
}

TEST(HfQuantised, Float8HasScalesOfEveryShape) {
  std::vector<std::uint8_t> codes(64 * 64, 0x38);  // 1.0
  codes[0] = 0x7e;                                 // 448
  const json fp8 = {{"quant_method", "fp8"}};
  const auto parts = [&](std::vector<int64_t> shape, const std::vector<float>& scales) {
    return Parts().add("a.weight", "F8_E4M3", {64, 64}, codes).add("a.weight_scale", "F32", std::move(shape), scales);
  };
  const auto per_row = std::vector<float>(64, 2.0f);
  EXPECT_EQ(floats_of(*parts({64, 1}, per_row).derive(fp8, true))[0], 896.0f);
  EXPECT_EQ(floats_of(*parts({1}, {0.5f}).derive(fp8, true))[65], 0.5f);
  const auto blocks = floats_of(*parts({2, 2}, {1.0f, 2.0f, 3.0f, 4.0f}).derive(fp8, true));
  EXPECT_EQ(blocks[0], 448.0f);
  EXPECT_EQ(blocks[63], 2.0f);
  EXPECT_EQ(blocks[64 * 63], 3.0f);
  EXPECT_EQ(blocks[64 * 64 - 1], 4.0f);
  const auto packed = parts({2, 2}, {1.0f, 2.0f, 3.0f, 4.0f}).derive(fp8);
  ASSERT_TRUE(packed);
  EXPECT_EQ(packed->tensors[0].dtype, tensor::DType::kFloat8);
}

TEST(HfQuantised, FetchedRowsComeAndGo) {
  const auto folder = gptq().derive(kGptq);
  ASSERT_TRUE(folder);
  const Weight& weight = folder->derived->tensors()[0];
  const auto row = weight.data.subspan(64, 64);
  EXPECT_TRUE(folder->derived->fetch(row));
  float value;
  std::memcpy(&value, row.data(), 4);
  EXPECT_EQ(value, -8.0f);
  EXPECT_TRUE(folder->derived->release(weight.data));
  const std::vector<std::byte> other(64);
  EXPECT_FALSE(folder->derived->fetch(other));
  EXPECT_FALSE(folder->derived->release(other));
}

}  // namespace
}  // namespace weir::load
