#include "api/tokenizer_assets.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>

namespace weir::api {
namespace {

// Writes the metadata of a GGUF v3 file without tensors.
class GgufBytes {
 public:
  void string(std::string_view key, std::string_view value) { entry(key, 8), text(value); }
  void number(std::string_view key, std::uint32_t value) { entry(key, 4), put(value); }
  void strings(std::string_view key, const std::vector<std::string>& values) {
    entry(key, 9), put(std::uint32_t{8}), put(std::uint64_t{values.size()});
    for (const auto& value : values) text(value);
  }
  template <class T>
  void array(std::string_view key, std::uint32_t type, const std::vector<T>& values) {
    entry(key, 9), put(type), put(std::uint64_t{values.size()});
    for (const T value : values) put(value);
  }
  std::string file() const {
    GgufBytes head;
    head.bytes_ = "GGUF";
    head.put(std::uint32_t{3}), head.put(std::uint64_t{0}), head.put(entries_);
    return head.bytes_ + bytes_;
  }

 private:
  template <class T>
  void put(T value) {
    char raw[sizeof(T)];
    std::memcpy(raw, &value, sizeof(T));
    bytes_.append(raw, sizeof(T));
  }
  void text(std::string_view value) { put(std::uint64_t{value.size()}), bytes_ += value; }
  void entry(std::string_view key, std::uint32_t type) { text(key), put(type), ++entries_; }

  std::string bytes_;
  std::uint64_t entries_ = 0;
};

GgufBytes spm_file() {
  GgufBytes gguf;
  gguf.string("general.architecture", "llama");
  gguf.string("tokenizer.ggml.model", "llama");
  gguf.strings("tokenizer.ggml.tokens", {"<unk>", "<s>", "</s>", "\u2581a", "\u2581", "a"});
  gguf.array<std::int32_t>("tokenizer.ggml.token_type", 5, {2, 3, 3, 1, 1, 1});
  return gguf;
}

class TokenizerAssets : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        std::filesystem::path(::testing::TempDir()) / ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string write(const std::string& name, const std::string& bytes) {
    const std::string path = folder_ / name;
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }

  std::filesystem::path folder_;
};

constexpr const char* kJson = R"({"added_tokens": [{"id": 1, "content": "<s>", "special": true}],
                                  "model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}})";

TEST_F(TokenizerAssets, TheContentTellsTheFormat) {
  GgufBytes gguf = spm_file();
  gguf.array<std::int32_t>("tokenizer.ggml.scores", 5, {0, 0, 0, -1, -2, -3});  // integers occur
  const auto from_gguf = load_tokenizer_file(write("any.name", gguf.file()));
  ASSERT_TRUE(from_gguf) << from_gguf.error().message;
  EXPECT_EQ((*from_gguf)->encode("a", {.add_special = true}), (std::vector<TokenId>{1, 3}));
  const auto from_json = load_tokenizer_file(write("other.name", kJson));
  ASSERT_TRUE(from_json) << from_json.error().message;
  EXPECT_EQ((*from_json)->encode("a", {}), (std::vector<TokenId>{0}));
}

TEST_F(TokenizerAssets, AFolderGivesBothFiles) {
  write("tokenizer.json", kJson);
  write("tokenizer_config.json", R"({"bos_token": "<s>"})");
  const auto tokenizer = load_tokenizer_file(folder_);
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  EXPECT_EQ((*tokenizer)->bos(), 1);
}

TEST_F(TokenizerAssets, ErrorsNameTheFileAndTheField) {
  const auto expect_error = [&](const std::string& path, std::string_view what) {
    const auto tokenizer = load_tokenizer_file(path);
    ASSERT_FALSE(tokenizer);
    EXPECT_NE(tokenizer.error().message.find(path), std::string::npos) << tokenizer.error().message;
    EXPECT_NE(tokenizer.error().message.find(what), std::string::npos) << tokenizer.error().message;
  };
  expect_error(folder_ / "missing", "");
  GgufBytes gguf = spm_file();
  gguf.array<float>("tokenizer.ggml.scores", 6, {0, 0});
  expect_error(write("scores", gguf.file()), "scores has 2");
  gguf = spm_file();
  gguf.strings("tokenizer.ggml.scores", {"x"});
  expect_error(write("types", gguf.file()), "not a list of numbers");
  gguf = spm_file();
  gguf.number("tokenizer.ggml.bos_token_id", 6);
  expect_error(write("bos", gguf.file()), "bos_token_id is 6");
  expect_error(write("empty", GgufBytes().file()), "tokenizer.ggml.model");
  expect_error(write("json", "{}x"), "JSON");
}

}  // namespace
}  // namespace weir::api
