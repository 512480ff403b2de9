#include "plan/model_card.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "plan/known_models.h"

namespace weir::plan {
namespace {

using testing::HasSubstr;

ModelCard card(const std::string& name) {
  auto found = read_model_card(name);
  EXPECT_TRUE(found.has_value()) << name << ": " << (found ? "" : found.error().message);
  return found ? *found : ModelCard{};
}

// The number of parameters in billions that a name states, "8x7B" left out; 0: none.
double stated_billions(const std::string& name) {
  double value = 0;
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (i > 0 && (std::isalnum(static_cast<unsigned char>(name[i - 1])) || name[i - 1] == '.')) continue;
    char* end = nullptr;
    const double number = std::strtod(name.c_str() + i, &end);
    if (end != name.c_str() + i && (*end == 'B' || *end == 'b' || *end == 'M')) {
      const double billions = *end == 'M' ? number / 1000 : number;
      if (end[1] == '\0' || end[1] == '-') value = std::max(value, billions);
    }
  }
  return value;
}

TEST(ModelCard, EveryKnownModelHasTheParametersThatItsNameStates) {
  int compared = 0;
  for (const KnownModel& known : known_model_table()) {
    const ModelCard found = card(known.name);
    EXPECT_EQ(found.name, known.name);
    for (const std::string& alias : known.aliases) EXPECT_EQ(card(alias).name, known.name) << alias;
    const double stated = stated_billions(known.name);
    // "17B-16E" states what is active; names round as they like.
    if (stated == 0 || known.name.starts_with("Llama-4")) continue;
    ++compared;
    EXPECT_GT(found.parameters() / 1e9, 0.83 * stated) << known.name;
    EXPECT_LT(found.parameters() / 1e9, 1.28 * stated) << known.name;
  }
  EXPECT_GE(compared, 40);
}

// From the models' own reports.
TEST(ModelCard, ParametersAreThoseOfTheReports) {
  struct {
    const char* name;
    double total, active;
  } const expected[] = {
      {"deepseek-ai/DeepSeek-R1", 671.0e9, 37e9},
      {"moonshotai/Kimi-K2-Instruct", 1.026e12, 32e9},
      {"openai/gpt-oss-120b", 116.8e9, 5.1e9},
      {"openai/gpt-oss-20b", 20.9e9, 3.6e9},
      {"MiniMaxAI/MiniMax-M2.5", 229e9, 10e9},
      {"Qwen/Qwen3-235B-A22B-FP8", 235e9, 22e9},
      {"meta-llama/Llama-3.1-405B", 405.9e9, 405.9e9 - 2.1e9},
      {"mistralai/Mixtral-8x7B-v0.1", 46.7e9, 12.9e9},
      {"zai-org/GLM-4.5", 355e9, 32e9},
      {"Qwen/Qwen3.5-397B-A17B", 397e9, 17e9},
      {"zhipuai/GLM-5", 744e9, 40e9},
      {"Llama-4-Maverick", 400e9, 17e9},
  };
  for (const auto& one : expected) {
    EXPECT_NEAR(card(one.name).parameters() / one.total, 1, 0.02) << one.name;
    EXPECT_NEAR(card(one.name).active_parameters() / one.active, 1, 0.08) << one.name;
  }
}

TEST(ModelCard, ANameMaySayATypeAnOrganisationAndATuning) {
  EXPECT_EQ(card("nvidia/DeepSeek-R1-NVFP4").types.name, "nvfp4");
  EXPECT_EQ(card("nvidia/DeepSeek-V3.1-NVFP4").name, "DeepSeek-V3");
  EXPECT_EQ(card("nvidia/Llama-3.1-8B-Instruct-FP8").types.linear_bits, 8);
  EXPECT_EQ(card("meta-llama/Meta-Llama-3.1-8B-Instruct").name, "Llama-3.1-8B");
  EXPECT_EQ(card("qwen3_32b").name, "Qwen3-32B");
  EXPECT_EQ(card("Qwen/Qwen3-30B-A3B-Instruct-2507").name, "Qwen3-30B-A3B");
  EXPECT_EQ(card("mistralai/Mistral-7B-Instruct-v0.1").spec.layer[0].window, 4096);
  EXPECT_EQ(card("mistralai/Mistral-7B-Instruct-v0.3").spec.layer[0].window, 0);
}

TEST(ModelCard, AnUnknownNameListsTheNearest) {
  const auto found = read_model_card("Lama-3.1-70");
  ASSERT_FALSE(found.has_value());
  EXPECT_EQ(found.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(found.error().message, HasSubstr("Llama-3.1-70B"));
  EXPECT_THAT(found.error().message, HasSubstr("GGUF"));
  EXPECT_FALSE(read_model_card("").has_value());
  EXPECT_FALSE(read_model_card(std::string(100000, 'x')).has_value());
  EXPECT_FALSE(read_model_card("-/-").has_value());
}

class CardFile : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "/card";
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  Result<ModelCard> read(const std::string& text) {
    std::ofstream(folder_ + "/config.json") << text;
    return read_model_card(folder_);
  }
  std::string folder_;
};

TEST_F(CardFile, AConfigurationAloneGivesTheCardOfTheKnownModel) {
  for (const KnownModel& known : known_model_table()) {
    if (known.name != "Qwen3-8B" && known.name != "Qwen3.5-27B" && known.name != "Kimi-K2.5") continue;
    const auto by_folder = read(known.config.dump());
    ASSERT_TRUE(by_folder.has_value()) << by_folder.error().message;
    const auto by_file = read_model_card(folder_ + "/config.json");
    ASSERT_TRUE(by_file.has_value()) << by_file.error().message;
    EXPECT_EQ(by_folder->weight_bytes, card(known.name).weight_bytes);
    EXPECT_EQ(by_file->weight_bytes, card(known.name).weight_bytes);
    EXPECT_EQ(by_file->name, "card");
  }
}

TEST_F(CardFile, TheMissingKeyIsNamed) {
  auto config = nlohmann::json::parse(R"({"architectures": ["LlamaForCausalLM"], "hidden_size": 64,
      "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 100, "max_position_embeddings": 512,
      "num_hidden_layers": 2})");
  ASSERT_TRUE(read(config.dump()).has_value());
  for (const char* key : {"hidden_size", "num_hidden_layers", "vocab_size", "intermediate_size"}) {
    auto less = config;
    less.erase(key);
    const auto found = read(less.dump());
    ASSERT_FALSE(found.has_value()) << key;
    EXPECT_THAT(found.error().message, HasSubstr(key));
  }
  config["quantization_config"] = {{"quant_method", "magic"}};
  EXPECT_THAT(read(config.dump()).error().message, HasSubstr("magic"));
  config["quantization_config"] = {{"quant_method", "awq"}, {"bits", 4}, {"group_size", 128}};
  EXPECT_NEAR(read(config.dump())->types.linear_bits, 4.156, 0.001);
}

TEST_F(CardFile, HostileConfigurationsAreRefusedOrRead) {
  for (const char* text :
       {"", "[]", "null", "{", "{}", R"({"architectures": [1]})", R"({"architectures": ["LlamaForCausalLM"]})",
        R"({"architectures": ["Qwen3_5ForConditionalGeneration"], "text_config": 3})",
        R"({"architectures": ["Llama4ForConditionalGeneration"], "text_config": {"num_hidden_layers": 99999999999}})",
        R"({"architectures": ["Qwen3_5ForConditionalGeneration"], "num_hidden_layers": -5})"}) {
    EXPECT_FALSE(read(text).has_value()) << text;
  }
  std::string deep(100000, '[');
  EXPECT_FALSE(read(deep).has_value());
  std::filesystem::remove(folder_ + "/config.json");
  EXPECT_THAT(read_model_card(folder_).error().message, HasSubstr("config.json"));
}

}  // namespace
}  // namespace weir::plan
