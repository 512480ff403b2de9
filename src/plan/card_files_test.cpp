#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>

#include "load/model_files.h"
#include "plan/model_card.h"

namespace weir::plan {
namespace {

const std::filesystem::path kModels = WEIR_SOURCE_DIR "/tests/golden/models";

double elements_of(const load::ModelFiles& model) {
  double elements = 0;
  for (const load::Weight& weight : model.weights->all()) {
    double of_one = 1;
    for (const std::int64_t extent : weight.shape) of_one *= static_cast<double>(extent);
    elements += of_one;
  }
  return elements;
}

// The card of a file and the loader's own view of it. Every family that weir serves has a tiny model.
TEST(CardFiles, ACardCountsWhatTheLoaderFinds) {
  int compared = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(kModels)) {
    const std::string path = entry.path().string();
    if (!(entry.is_directory() && std::filesystem::exists(entry.path() / "config.json")) &&
        (!path.ends_with(".gguf") || path.ends_with("-00002-of-00002.gguf")))
      continue;
    const auto model = load::open_model(path);
    ASSERT_TRUE(model.has_value()) << model.error().message;
    const auto card = read_model_card(path);
    ASSERT_TRUE(card.has_value()) << card.error().message;
    ++compared;
    EXPECT_TRUE(card->exact_bytes) << path;
    EXPECT_NEAR(card->parameters() / elements_of(*model), 1, 1e-6) << path;
    EXPECT_LE(card->weight_bytes, model->file_bytes) << path;
    if (path.find("quant") != std::string::npos) continue;
    double bytes = 0;
    for (const load::Weight& weight : model->weights->all()) bytes += static_cast<double>(weight.bytes());
    EXPECT_NEAR(static_cast<double>(card->weight_bytes) / bytes, 1, 0.01) << path;
    EXPECT_NEAR(card->bytes_as(card->types) / bytes, 1, 0.05) << path;
  }
  EXPECT_GE(compared, 40);
}

// Folders are called what their owners like; reports, JSON and SVG must hold it.
TEST(CardFiles, NamesArePrintable) {
  const std::filesystem::path folder = testing::TempDir() + "/odd\xff\x1b<b>";
  std::filesystem::create_directories(folder);
  for (const auto& entry : std::filesystem::directory_iterator(kModels / "llama"))
    std::filesystem::copy(entry.path(), folder / entry.path().filename(),
                          std::filesystem::copy_options::overwrite_existing);
  const auto card = read_model_card(folder.string());
  ASSERT_TRUE(card.has_value()) << card.error().message;
  EXPECT_EQ(card->name, "odd\\xff\\x1b<b>");
}

TEST(CardFiles, DamagedFilesAreRefused) {
  const std::string path = testing::TempDir() + "/damaged.gguf";
  std::filesystem::remove(path);
  for (const char* text : {"", "GGUF", "GGUF\3\0\0\0 and what else"}) {
    std::FILE* file = std::fopen(path.c_str(), "wb");
    std::fputs(text, file);
    std::fclose(file);
    EXPECT_FALSE(read_model_card(path).has_value()) << text;
  }
}

}  // namespace
}  // namespace weir::plan
