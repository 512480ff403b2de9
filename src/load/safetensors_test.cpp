#include "load/safetensors.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "load/test_gguf.h"

namespace weir::load {
namespace {

std::vector<std::byte> file(std::string_view header, std::size_t data_bytes) {
  test::Bytes bytes;
  bytes.text(header);
  bytes.raw(std::vector<std::byte>(data_bytes, std::byte{1}));
  return bytes.data();
}

void refused(std::string_view header, std::size_t data_bytes, std::string_view part,
             ErrorCode code = ErrorCode::kCorruptFile) {
  const auto result = parse_safetensors(file(header, data_bytes), "test.safetensors");
  ASSERT_FALSE(result) << "expected an error with: " << part;
  EXPECT_EQ(result.error().code, code) << result.error().message;
  EXPECT_NE(result.error().message.find(part), std::string::npos) << result.error().message << "\nlacks: " << part;
  EXPECT_NE(result.error().message.find("test.safetensors"), std::string::npos) << result.error().message;
}

constexpr std::string_view kTwo =
    R"({"__metadata__":{"format":"pt"},"b":{"dtype":"BF16","shape":[4],"data_offsets":[24,32]},)"
    R"("a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}})";

TEST(Safetensors, ReadsTensorsInAnyOrder) {
  const auto bytes = file(kTwo, 32);
  const auto contents = parse_safetensors(bytes, "test.safetensors");
  ASSERT_TRUE(contents) << contents.error().message;
  ASSERT_EQ(contents->tensors.size(), 2u);
  EXPECT_EQ(contents->tensors[0].name, "b");
  EXPECT_EQ(contents->tensors[0].dtype, tensor::DType::kBF16);
  EXPECT_EQ(contents->tensors[1].shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(contents->tensors[1].data.data(), bytes.data() + 8 + kTwo.size());
  EXPECT_EQ(contents->tensors[1].data.size(), 24u);
}

TEST(Safetensors, ScalarsEmptyTensorsAndOtherTypes) {
  const auto bytes = file(
      R"({"s":{"dtype":"F16","shape":[],"data_offsets":[0,2]},"e":{"dtype":"F32","shape":[0,5],"data_offsets":[2,2]},)"
      R"("i":{"dtype":"I64","shape":[1],"data_offsets":[2,10]},"f":{"dtype":"F4","shape":[2],"data_offsets":[10,11]}}  )",
      11);
  const auto contents = parse_safetensors(bytes, "test.safetensors");
  ASSERT_TRUE(contents) << contents.error().message;
  EXPECT_EQ(contents->tensors.size(), 2u);
  ASSERT_EQ(contents->unsupported.size(), 2u);
  EXPECT_EQ(contents->unsupported[0].type, "I64");
  EXPECT_EQ(contents->unsupported[1].bytes, 1);
}

TEST(Safetensors, CutAtEveryByte) {
  const auto whole = file(kTwo, 32);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(parse_safetensors(std::span(whole).first(size), "test.safetensors")) << size;
  }
}

TEST(Safetensors, EveryByteChanged) {
  auto bytes = file(kTwo, 32);
  for (std::size_t i = 0; i < 8 + kTwo.size(); ++i) {
    const std::byte old = bytes[i];
    for (unsigned value = 0; value < 256; value += 5) {
      bytes[i] = std::byte(value);
      static_cast<void>(parse_safetensors(bytes, "test.safetensors"));  // any answer but a crash
    }
    bytes[i] = old;
  }
}

TEST(Safetensors, HostileHeaderLength) {
  for (const std::uint64_t length :
       {std::uint64_t{100'000'001}, ~std::uint64_t{0}, std::uint64_t{1} << 63, std::uint64_t{41}}) {
    test::Bytes bytes;
    bytes.put(length).raw(std::vector<std::byte>(40, std::byte{' '}));
    const auto result = parse_safetensors(bytes.data(), "test.safetensors");
    ASSERT_FALSE(result);
    EXPECT_NE(result.error().message.find(std::to_string(length)), std::string::npos) << result.error().message;
  }
  refused("", 0, "begin with '{'");
  refused("  {}", 0, "begin with '{'");
  refused(R"({"a":)", 0, "not valid JSON");
  refused("{} x", 0, "not valid JSON");
  refused(std::string("{\"a\":") + std::string(100000, '['), 0, "an array");
  refused(std::string("{\"a\":{\"shape\":") + std::string(100000, '['), 0, "an array");
  refused(R"({"a":{"b":{"c":{}}}})", 0, "field of that name");
}

TEST(Safetensors, HostileEntries) {
  const auto entry = [](std::string_view body) { return fmt::format(R"({{"a":{{{}}}}})", body); };
  refused(entry(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])"), 4, "needs 8 bytes, its data_offsets span 4");
  refused(entry(R"("dtype":"F32","shape":[2],"data_offsets":[0,8])"), 4, "cut short");
  refused(entry(R"("dtype":"F32","shape":[2],"data_offsets":[8,0])"), 8, "at bytes 8 to 0");
  refused(entry(R"("dtype":"F32","shape":[2],"data_offsets":[-8,0])"), 8, "negative number -8");
  refused(entry(R"("dtype":"F32","shape":[-2],"data_offsets":[0,8])"), 8, "negative number -2");
  refused(entry(R"("dtype":"F32","shape":[2.0],"data_offsets":[0,8])"), 8, "a fraction");
  refused(entry(R"("dtype":"F32","shape":["2"],"data_offsets":[0,8])"), 8, "a string");
  refused(entry(R"("dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,8])"), 8, "18446744073709551615");
  refused(entry(R"("dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0])"), 0, "more than 2^63");
  refused(entry(R"("dtype":"F32","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,4])"), 4, "more than 8");
  refused(entry(R"("dtype":"F32","shape":[2])"), 8, "needs dtype, shape and two data_offsets");
  refused(entry(R"("dtype":"F32","data_offsets":[0,8])"), 8, "needs dtype, shape");
  refused(entry(R"("shape":[2],"data_offsets":[0,8])"), 8, "needs dtype, shape");
  refused(entry(R"("dtype":"F32","shape":[2],"data_offsets":[0,8,9])"), 8, "it has 3");
  refused(entry(R"("dtype":"F32","shape":[2],"shape":[2],"data_offsets":[0,8])"), 8, "an array");
  refused(entry(R"("dtype":null,"shape":[2],"data_offsets":[0,8])"), 8, "a null");
  refused(entry(R"("dtype":"F4","shape":[3],"data_offsets":[0,1])"), 1, "ends inside a byte");
  refused(entry(R"("dtype":"F31","shape":[2],"data_offsets":[0,8])"), 8, "\"F31\"", ErrorCode::kUnsupported);
  refused(R"({"a":[]})", 0, "an array");
  refused(R"({"a":1})", 0, "a number");
}

TEST(Safetensors, HostileLayout) {
  const auto two = [](std::string_view first, std::string_view second) {
    return fmt::format(
        R"({{"a":{{"dtype":"F32","shape":[2],"data_offsets":[{}]}},"b":{{"dtype":"F32","shape":[2],"data_offsets":[{}]}}}})",
        first, second);
  };
  refused(two("0,8", "4,12"), 12, "before byte 8");
  refused(two("0,8", "0,8"), 8, "before byte 8");
  refused(two("0,8", "12,20"), 20, "after byte 8");
  refused(two("0,8", "8,16"), 20, "end at byte 16 of data of 20 bytes");
  refused(
      R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"a":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}})",
      16, "a second tensor");
}

class Shards : public testing::Test {
 protected:
  Shards() { std::filesystem::create_directories(folder_); }
  ~Shards() override { std::filesystem::remove_all(folder_); }

  void write(const std::string& name, std::string_view tensor) {
    const auto bytes = file(fmt::format(R"({{"{}":{{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}}})", tensor), 8);
    text(name, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
  void text(const std::string& name, std::string_view contents) {
    std::ofstream(folder_ / name, std::ios::binary)
        .write(contents.data(), static_cast<std::streamsize>(contents.size()));
  }
  void index(std::string_view map) { text("model.safetensors.index.json", fmt::format(R"({{"weight_map":{}}})", map)); }
  void refused(std::string_view part, ErrorCode code = ErrorCode::kCorruptFile) {
    const auto result = Safetensors::open(folder_.string());
    ASSERT_FALSE(result) << "expected an error with: " << part;
    EXPECT_EQ(result.error().code, code) << result.error().message;
    EXPECT_NE(result.error().message.find(part), std::string::npos) << result.error().message << "\nlacks: " << part;
  }

  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / fmt::format("weir_safetensors_test_{}", getpid());
};

TEST_F(Shards, OpenTogether) {
  write("x-1.safetensors", "a");
  write("x-2.safetensors", "b");
  index(R"({"a":"x-1.safetensors","b":"x-2.safetensors"})");
  const auto model = Safetensors::open(folder_.string());
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ((*model)->files(), 2);
  ASSERT_EQ((*model)->tensors().size(), 2u);
  (*model)->release((*model)->tensors()[0].data);
  float value = 0;
  std::memcpy(&value, (*model)->tensors()[0].data.data(), sizeof(value));
  EXPECT_NE(value, 0.0f);
}

TEST_F(Shards, HostileIndexes) {
  refused("neither model.safetensors", ErrorCode::kNotFound);
  text("pytorch_model.bin", "x");
  refused("pickle", ErrorCode::kUnsupported);
  write("x-1.safetensors", "a");
  index(R"({"a":"x-1.safetensors","b":"x-2.safetensors"})");
  refused("x-2.safetensors: this shard is missing", ErrorCode::kNotFound);
  write("x-2.safetensors", "a");
  refused("\"a\" is in x-1.safetensors and in x-2.safetensors");
  write("x-2.safetensors", "c");
  refused("\"b\" should be in x-2.safetensors");
  write("x-2.safetensors", "b");
  index(R"({"a":"x-2.safetensors","b":"x-1.safetensors"})");
  refused("should be in x-1.safetensors");
  for (const auto* name : {"../x-1.safetensors", "/etc/x.safetensors", "a/../x-1.safetensors", "x-1.bin", "", ".."}) {
    index(fmt::format(R"({{"a":"{}"}})", name));
    refused("plain name");
  }
  index(R"({"a":7})");
  refused("no file name");
  index("{}");
  refused("weight_map");
  index("[]");
  refused("weight_map");
  text("model.safetensors.index.json", "[");
  refused("not valid JSON");
  text("model.safetensors.index.json", std::string(100000, '['));
  refused("nested more than");
  text("model.safetensors", "1234567");
  refused("header's length");
}

}  // namespace
}  // namespace weir::load
