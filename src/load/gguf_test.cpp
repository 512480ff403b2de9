#include "load/gguf.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <new>

#include "load/model_files.h"
#include "load/test_gguf.h"

// Counts what the parser allocates: a hostile file must not make it take more than its own size times a small constant.
// Not inlined: g++ would take malloc and delete for a mismatch.
namespace {
std::size_t allocated = 0;
}  // namespace

[[gnu::noinline]] void* operator new(std::size_t size) {
  allocated += size;
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  allocated += size;
  return std::malloc(size);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace weir::load {
namespace {

using test::Bytes;
using test::GgufBuilder;
using test::TestTensor;
using test::tiny_gguf;

constexpr std::size_t kBytesPerFileByte = 32, kFixedBytes = 1 << 16;

Result<std::unique_ptr<GgufFile>> parse(const std::vector<std::byte>& bytes) {
  allocated = 0;
  auto result = GgufFile::parse(bytes, "test.gguf");
  EXPECT_LE(allocated, bytes.size() * kBytesPerFileByte + kFixedBytes);
  return result;
}

Result<ModelFiles> open(const std::vector<std::byte>& bytes) {
  WEIR_TRY(auto gguf, parse(bytes));
  return model_from_gguf(std::move(gguf), "test.gguf");
}

// The error says what it should, and names the file.
template <class T>
void expect_error(const Result<T>& result, ErrorCode code, std::string_view part) {
  ASSERT_FALSE(result.has_value()) << "expected an error with: " << part;
  EXPECT_EQ(result.error().code, code) << result.error().message;
  EXPECT_NE(result.error().message.find(part), std::string::npos) << result.error().message << "\nlacks: " << part;
  EXPECT_NE(result.error().message.find("test.gguf"), std::string::npos) << result.error().message;
}

void refused(const GgufBuilder& builder, std::string_view part, ErrorCode code = ErrorCode::kCorruptFile) {
  expect_error(open(builder.build()), code, part);
}

TEST(Gguf, ReadsEveryValueType) {
  GgufBuilder b;
  b.set("u8", Bytes().put<std::int32_t>(0).put<std::uint8_t>(200))
      .set("i8", Bytes().put<std::int32_t>(1).put<std::int8_t>(-3));
  b.u16("u16", 65535).set("i16", Bytes().put<std::int32_t>(3).put<std::int16_t>(-300));
  b.u32("u32", 4294967295u).i32("i32", -70000).f32("f32", 0.5f).string("string", "text");
  b.set("bool", Bytes().put<std::int32_t>(7).put<std::uint8_t>(1));
  b.set("u64", Bytes().put<std::int32_t>(10).put<std::uint64_t>(1))
      .set("i64", Bytes().put<std::int32_t>(11).put<std::int64_t>(-1));
  b.set("f64", Bytes().put<std::int32_t>(12).put(0.25));
  b.strings("strings", {"x", "", "yz"}).array<std::int16_t>("ints", 3, {1, -2}).array<float>("floats", 6, {1.5f});
  b.array<std::uint8_t>("bools", 7, {0, 1, 1});
  const auto bytes = b.build();
  const auto file = parse(bytes);
  ASSERT_TRUE(file) << file.error().message;
  const GgufFile& f = **file;
  EXPECT_EQ(f.get_int("u8"), 200);
  EXPECT_EQ(f.get_int("i8"), -3);
  EXPECT_EQ(f.get_int("u16"), 65535);
  EXPECT_EQ(f.get_int("i16"), -300);
  EXPECT_EQ(f.get_int("u32"), 4294967295);
  EXPECT_EQ(f.get_int("i32"), -70000);
  EXPECT_EQ(f.get_double("f32"), 0.5);
  EXPECT_EQ(f.get_double("i32"), -70000.0);
  EXPECT_EQ(*f.get_string("string"), "text");
  EXPECT_EQ(f.get_bool("bool"), true);
  EXPECT_EQ(f.get_int("u64"), 1);
  EXPECT_EQ(f.get_int("i64"), -1);
  EXPECT_EQ(f.get_double("f64"), 0.25);
  EXPECT_EQ(*f.get_strings("strings"), (std::vector<std::string>{"x", "", "yz"}));
  EXPECT_EQ(*f.get_ints("ints"), (std::vector<std::int64_t>{1, -2}));
  EXPECT_EQ(*f.get_doubles("floats"), std::vector<double>{1.5});
  EXPECT_EQ(std::get<std::vector<bool>>(f.metadata().at("bools")), (std::vector<bool>{false, true, true}));
  EXPECT_EQ(f.get_int("f32"), std::nullopt);
  EXPECT_EQ(f.get_string("missing"), nullptr);
}

TEST(Gguf, TensorsAreOutermostFirstAndInPlace) {
  GgufBuilder b;
  b.f32_tensor("a", {3, 2});
  for (int i = 0; i < 6; ++i) {
    const auto value = static_cast<float>(i);
    std::memcpy(b.tensor("a").data.data() + i * 4, &value, 4);
  }
  TestTensor& q = b.tensor("q");
  q.dims = {64, 2, 3};
  q.type = 2;
  q.data.resize(6 * 36, std::byte{7});
  for (const std::uint32_t version : {2u, 3u}) {
    b.version = version;
    const auto bytes = b.build();
    const auto file = parse(bytes);
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_EQ((*file)->version(), static_cast<int>(version));
    const auto& tensors = (*file)->tensors();
    ASSERT_EQ(tensors.size(), 2u);
    EXPECT_EQ(tensors[0].shape, (std::vector<std::int64_t>{2, 3}));
    float last = 0;
    std::memcpy(&last, tensors[0].data.data() + 20, 4);
    EXPECT_EQ(last, 5.0f);
    EXPECT_EQ(tensors[1].shape, (std::vector<std::int64_t>{3, 2, 64}));
    EXPECT_EQ(tensors[1].dtype, tensor::DType::kQ4_0);
    EXPECT_EQ(tensors[1].data.size(), 6u * 36);
  }
}

TEST(Gguf, OtherAlignmentsAreHonoured) {
  for (const std::uint32_t alignment : {1u, 8u, 64u, 4096u}) {
    GgufBuilder b = tiny_gguf();
    b.alignment = alignment;
    b.u32("general.alignment", alignment);
    const auto bytes = b.build();
    const auto model = open(bytes);
    ASSERT_TRUE(model) << model.error().message;
    for (const Weight& w : model->weights->all()) {
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(w.data.data()) % alignof(float), 0u) << w.name;
    }
  }
}

TEST(Gguf, AFileWithoutTensorsOpens) {
  GgufBuilder b;
  b.string("general.architecture", "llama").strings("tokenizer.ggml.tokens", {"a"});
  const auto bytes = b.build();
  ASSERT_TRUE(parse(bytes));
  expect_error(open(bytes), ErrorCode::kCorruptFile, "llama.block_count");
}

TEST(Gguf, UnsupportedTypesAreListedApart) {
  GgufBuilder b = tiny_gguf();
  TestTensor& t = b.tensor("blk.0.ffn_down.weight");
  t.dims = {256, 2};
  t.type = 15;
  t.data.resize(2 * 292);
  const auto bytes = b.build();
  const auto file = parse(bytes);
  ASSERT_TRUE(file) << file.error().message;
  ASSERT_EQ((*file)->unsupported_tensors().size(), 1u);
  const UnsupportedTensor& u = (*file)->unsupported_tensors()[0];
  EXPECT_EQ(u.type, "Q8_K");
  EXPECT_EQ(u.bytes, 584);
  EXPECT_EQ(u.shape, (std::vector<std::int64_t>{2, 256}));
  refused(b, "Q8_K", ErrorCode::kUnsupported);
}

TEST(Gguf, UnknownTypesAreListedWithTheRoomTheyHave) {
  GgufBuilder b = tiny_gguf();
  b.tensor("blk.0.ffn_down.weight").type = 77;
  const auto bytes = b.build();
  const auto file = parse(bytes);
  ASSERT_TRUE(file) << file.error().message;
  ASSERT_EQ((*file)->unsupported_tensors().size(), 1u);
  const UnsupportedTensor& u = (*file)->unsupported_tensors()[0];
  EXPECT_EQ(u.type, "77 (unknown to weir)");
  EXPECT_GE(u.bytes, static_cast<std::int64_t>(b.tensor("blk.0.ffn_down.weight").data.size()));
  EXPECT_EQ((*file)->tensors().size() + 1, parse(tiny_gguf().build()).value()->tensors().size());
  refused(b, "has type 77 (unknown to weir), which is not supported; supported are F32", ErrorCode::kUnsupported);
}

TEST(GgufHostile, CutAtEveryByte) {
  const auto whole = tiny_gguf().build();
  ASSERT_TRUE(open(whole));
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const std::vector<std::byte> part(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_FALSE(parse(part)) << size;
  }
}

TEST(GgufHostile, EveryByteOfTheHeaderChanged) {
  const GgufBuilder b = tiny_gguf();
  const std::size_t header = b.header().size();
  auto bytes = b.build();
  for (std::size_t i = 0; i < header; ++i) {
    const std::byte old = bytes[i];
    for (const unsigned value : {0x00u, 0xffu, 0x7fu, 0x80u, 0x01u}) {
      bytes[i] = std::byte(value);
      static_cast<void>(open(bytes));  // any answer but a crash
    }
    bytes[i] = old;
  }
}

TEST(GgufHostile, Header) {
  GgufBuilder b = tiny_gguf();
  b.magic = 0x04034b50;
  refused(b, "not a GGUF file");
  for (const std::uint32_t version : {0u, 1u, 4u, 0x03000000u}) {
    b = tiny_gguf();
    b.version = version;
    refused(b, "version", ErrorCode::kUnsupported);
  }
  for (const std::uint64_t count :
       {std::uint64_t{1} << 60, std::uint64_t{1} << 63, ~std::uint64_t{1}, std::uint64_t{1000000}}) {
    b = tiny_gguf();
    b.tensor_count = count;
    refused(b, "number of tensors");
    b = tiny_gguf();
    b.pair_count = count;
    refused(b, "number of metadata entries");
  }
}

TEST(GgufHostile, Values) {
  const auto with = [](Bytes value) { return tiny_gguf().set("x", std::move(value)); };
  refused(with(Bytes().put<std::int32_t>(8).put<std::uint64_t>(std::uint64_t{1} << 63)), "bytes at offset");
  refused(with(Bytes().put<std::int32_t>(9).put<std::int32_t>(12).put<std::uint64_t>(std::uint64_t{1} << 61)),
          "elements");
  refused(with(Bytes().put<std::int32_t>(9).put<std::int32_t>(8).put<std::uint64_t>(std::uint64_t{1} << 61)),
          "elements");
  refused(with(Bytes().put<std::int32_t>(9).put<std::int32_t>(9).put<std::uint64_t>(1)), "array of arrays");
  refused(with(Bytes().put<std::int32_t>(9).put<std::int32_t>(13).put<std::uint64_t>(0)), "value type 13");
  refused(with(Bytes().put<std::int32_t>(13)), "value type 13");
  refused(with(Bytes().put<std::int32_t>(-1)), "value type -1");
  refused(with(Bytes().put<std::int32_t>(7).put<std::uint8_t>(2)), "boolean of value 2");
  refused(with(Bytes().put<std::int32_t>(10).put<std::uint64_t>(~std::uint64_t{0})), "18446744073709551615");
  GgufBuilder b = tiny_gguf();
  b.pairs.push_back(b.pairs[0]);
  refused(b, "\"general.architecture\" appears twice");
  b = tiny_gguf();
  b.pairs.emplace_back("", b.pairs[0].second);
  refused(b, "has 0 bytes");
}

TEST(GgufHostile, Alignment) {
  refused(tiny_gguf().string("general.alignment", "32"), "general.alignment");
  for (const std::uint32_t alignment : {0u, 3u, 33u, 0xffffffffu})
    refused(tiny_gguf().u32("general.alignment", alignment), "power of two");
  refused(tiny_gguf().u32("general.alignment", 0x80000000u), "the tensor data begin at byte 2147483648");
  refused(tiny_gguf().i32("general.alignment", -32), "power of two");
}

TEST(GgufHostile, Tensors) {
  const auto with_dims = [](std::vector<std::int64_t> dims, std::int32_t type = 0) {
    GgufBuilder b = tiny_gguf();
    b.tensor("blk.0.attn_q.weight").dims = std::move(dims);
    b.tensor("blk.0.attn_q.weight").type = type;
    return b;
  };
  constexpr std::int64_t kMax = 0x7fffffffffffffff;
  refused(with_dims({0, 32}), "must be positive");
  refused(with_dims({-1, 32}), "must be positive");
  refused(with_dims({std::int64_t{1} << 40, std::int64_t{1} << 40}), "more than 2^63 elements");
  refused(with_dims({kMax / 2}), "more than 2^63 bytes");
  refused(with_dims({kMax / 4 - 3}), "9223372036854775792 bytes");
  refused(with_dims({1 << 20, 1 << 10}), "cut short");
  refused(with_dims({1, 1, 1, 1, 1}), "5 dimensions");
  refused(with_dims({33, 32}, 2), "blocks of 32");
  refused(with_dims({32, 32}, 12), "blocks of 256");
  for (const std::int32_t dead : {4, 5, 31, 36, 43, 255, -1, 0x7fffffff}) {
    refused(with_dims({32, 32}, dead), fmt::format("type {}", dead), ErrorCode::kUnsupported);
  }

  const auto with_offset = [](std::uint64_t offset) {
    GgufBuilder b = tiny_gguf();
    b.tensor("output_norm.weight").offset = offset;
    return b;
  };
  refused(with_offset(std::uint64_t{1} << 40), "cut short");
  refused(with_offset(~std::uint64_t{31}), "cut short");
  refused(with_offset(1), "no multiple of the alignment");
  refused(with_offset(0), "inside tensor");

  GgufBuilder b = tiny_gguf();
  b.tensors.push_back(b.tensors[3]);
  refused(b, "two tensors are named \"blk.0.attn_k.weight\"");
  b = tiny_gguf();
  b.f32_tensor(std::string(300, 'x'), {1});
  refused(b, "has 300 bytes");
}

TEST(GgufSplit, ChecksNamesAndCounts) {
  const auto folder = std::filesystem::temp_directory_path() / fmt::format("weir_gguf_test_{}", getpid());
  std::filesystem::create_directories(folder);
  const auto write = [&](const std::string& name, const GgufBuilder& b) {
    const auto bytes = b.build();
    std::ofstream(folder / name, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  };
  GgufBuilder first = tiny_gguf(), second;
  for (int i = 0; i < 4; ++i) {
    second.tensors.insert(second.tensors.begin(), first.tensors.back());
    first.tensors.pop_back();
  }
  const auto total = static_cast<std::int32_t>(first.tensors.size() + second.tensors.size());
  first.u16("split.no", 0).u16("split.count", 2).i32("split.tensors.count", total);
  second.u16("split.no", 1).u16("split.count", 2).i32("split.tensors.count", total);
  write("test.gguf-00001-of-00002.gguf", first);
  const std::string path = (folder / "test.gguf-00001-of-00002.gguf").string();
  expect_error(open_model(path), ErrorCode::kNotFound, "part 2 of 2 is missing");
  write("test.gguf-00002-of-00002.gguf", second);
  const auto model = open_model(path);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->gguf->parts(), 2);
  EXPECT_EQ(model->weights->all().size(), static_cast<std::size_t>(total));
  for (const Weight& w : model->weights->all()) model->weights->release(w.data);
  EXPECT_TRUE(open_model((folder / "test.gguf-00002-of-00002.gguf").string()));

  write("test.gguf-00001-of-00001.gguf", first);
  expect_error(open_model((folder / "test.gguf-00001-of-00001.gguf").string()), ErrorCode::kCorruptFile,
               "split.count = 2");
  write("lone-test.gguf", first);
  expect_error(open_model((folder / "lone-test.gguf").string()), ErrorCode::kCorruptFile, "part 1 of 2");
  first.i32("split.tensors.count", total + 1);
  write("test.gguf-00001-of-00002.gguf", first);
  expect_error(open_model(path), ErrorCode::kCorruptFile, "split.tensors.count");
  first.i32("split.tensors.count", total + 1).tensors.push_back(second.tensors[0]);
  write("test.gguf-00001-of-00002.gguf", first);
  expect_error(open_model(path), ErrorCode::kCorruptFile, "in two parts");
  write("lone-test.gguf", tiny_gguf().u16("split.count", 65535));
  expect_error(open_model((folder / "lone-test.gguf").string()), ErrorCode::kCorruptFile, "65535");
  write("test.gguf-00001-of-65535.gguf", first);
  expect_error(open_model((folder / "test.gguf-00001-of-65535.gguf").string()), ErrorCode::kUnsupported, "65535");
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace weir::load
