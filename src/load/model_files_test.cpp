#include "load/model_files.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "load/inspect.h"
#include "load/json_fields.h"

namespace weir::load {
namespace {

const std::string kModels = std::string(WEIR_SOURCE_DIR) + "/tests/golden/models/";

ModelFiles open(const std::string& path) {
  auto model = open_model(path);
  EXPECT_TRUE(model) << model.error().message;
  return model ? *std::move(model) : ModelFiles{};
}

std::vector<float> values(const Weight& weight) {
  EXPECT_EQ(weight.dtype, tensor::DType::kF32);
  std::vector<float> out(weight.data.size() / sizeof(float));
  std::memcpy(out.data(), weight.data.data(), out.size() * sizeof(float));
  return out;
}

// Row r of a head in a llama GGUF file is row `from` of the same head in the safetensors: pairs (2i, 2i+1) there are
// (i, i + d/2) here.
std::vector<float> paired(const std::vector<float>& rows, std::size_t row_size, std::size_t head_dim) {
  std::vector<float> out(rows.size());
  for (std::size_t r = 0; r < rows.size() / row_size; ++r) {
    const std::size_t head = r / head_dim, in_head = r % head_dim;
    const std::size_t from = head * head_dim + in_head / 2 + (in_head % 2) * (head_dim / 2);
    std::copy_n(rows.begin() + static_cast<std::ptrdiff_t>(from * row_size), row_size,
                out.begin() + static_cast<std::ptrdiff_t>(r * row_size));
  }
  return out;
}

class Twins : public testing::TestWithParam<std::string> {};

TEST_P(Twins, AreTheSameModel) {
  const ModelFiles folder = open(kModels + GetParam()), gguf = open(kModels + "gguf/" + GetParam() + ".gguf");
  const ModelSpec &a = folder.spec, &b = gguf.spec;
  EXPECT_EQ(a.family, b.family);
  EXPECT_EQ(std::tuple(a.layers, a.hidden, a.heads, a.kv_heads, a.head_dim, a.ffn, a.vocab),
            std::tuple(b.layers, b.hidden, b.heads, b.kv_heads, b.head_dim, b.ffn, b.vocab));
  EXPECT_EQ(a.context_length, b.context_length);
  EXPECT_EQ(a.tied_embeddings, b.tied_embeddings);
  EXPECT_EQ(a.embedding_scale, b.embedding_scale);
  EXPECT_EQ(a.attention_scale, b.attention_scale);
  EXPECT_EQ(a.final_softcap, b.final_softcap);
  EXPECT_EQ(a.activation, b.activation);
  ASSERT_EQ(a.ropes.size(), b.ropes.size());
  for (std::size_t i = 0; i < a.ropes.size(); ++i) {
    EXPECT_EQ(a.ropes[i].dims, b.ropes[i].dims);
    EXPECT_EQ(a.ropes[i].theta, b.ropes[i].theta);
    EXPECT_NEAR(a.ropes[i].attention_factor, b.ropes[i].attention_factor, 1e-6);
  }
  for (std::size_t i = 0; i < a.layer.size(); ++i) {
    EXPECT_EQ(a.layer[i].window, b.layer[i].window);
    EXPECT_EQ(a.layer[i].rope, b.layer[i].rope);
  }
  EXPECT_EQ(folder.generation.eos_ids, gguf.generation.eos_ids);
  EXPECT_EQ(folder.chat_templates.at(""), gguf.chat_templates.at(""));
  ASSERT_EQ(folder.weights->all().size(), gguf.weights->all().size());
  const bool llama = a.family == "llama";
  for (const Weight& weight : folder.weights->all()) {
    const Weight* twin = gguf.weights->find(weight.name);
    ASSERT_NE(twin, nullptr) << weight.name;
    EXPECT_EQ(weight.shape, twin->shape);
    std::vector<float> expected = values(weight);
    if (llama &&
        (weight.name.find("attn_q.") != std::string::npos || weight.name.find("attn_k.") != std::string::npos)) {
      expected = paired(expected, weight.shape.size() == 2 ? static_cast<std::size_t>(weight.shape[1]) : 1,
                        static_cast<std::size_t>(a.head_dim));
    }
    if (weight.name.find("norm") != std::string::npos) {
      for (float& x : expected) x += a.norm_weight_offset - b.norm_weight_offset;
    }
    EXPECT_EQ(expected, values(*twin)) << weight.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Twins,
                         testing::Values("llama", "llama-bias-linear", "llama3-rope", "qwen2-yarn", "qwen3", "gemma3"));

TEST(ModelFiles, FolderTexts) {
  const ModelFiles model = open(kModels + "qwen3");
  EXPECT_EQ(model.format, "safetensors");
  EXPECT_EQ(model.spec.name, "qwen3");
  EXPECT_EQ(model.gguf, nullptr);
  EXPECT_FALSE(model.tokenizer_json.empty());
  EXPECT_FALSE(model.tokenizer_config_json.empty());
  EXPECT_EQ(model.chat_templates.size(), 2u);
  EXPECT_TRUE(model.chat_templates.at("tool_use").starts_with("{{ tools }}"));
  EXPECT_EQ(model.generation.eos_ids, (std::vector<TokenId>{0, 2}));
  EXPECT_EQ(model.generation.temperature, 0.7f);
  EXPECT_EQ(model.generation.top_k, 40);
  EXPECT_EQ(open(kModels + "qwen3/").spec.name, "qwen3");
}

TEST(ModelFiles, ShardsAndBf16) {
  EXPECT_EQ(open(kModels + "llama-sharded").weights->all().size(), 21u);
  const ModelFiles bf16 = open(kModels + "llama-bf16");
  EXPECT_EQ(bf16.spec.main_dtype, tensor::DType::kBF16);
  EXPECT_EQ(bf16.weights->find("token_embd.weight")->dtype, tensor::DType::kBF16);
  EXPECT_EQ(bf16.weights->find("nothing"), nullptr);
  for (const Weight& weight : bf16.weights->all()) bf16.weights->release(weight.data);
}

TEST(ModelFiles, QuantisedFiles) {
  for (const auto* type : {"F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K"}) {
    const ModelFiles model = open(kModels + "quant/" + type + ".gguf");
    EXPECT_EQ(model.spec.quantisation, type);
    EXPECT_EQ(model.spec.main_dtype, tensor::parse_dtype(type));
  }
}

// A copy of a good folder, for spoiling.
class SpoiledFolder : public testing::Test {
 protected:
  SpoiledFolder() {
    std::filesystem::remove_all(folder_);
    std::filesystem::copy(kModels + "llama", folder_);
  }
  ~SpoiledFolder() override { std::filesystem::remove_all(folder_); }

  void write(const std::string& name, std::string_view text) {
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }
  void replace(const std::string& name, std::string_view old, std::string_view with) {
    std::string text = *read_text_file((folder_ / name).string(), kMaxConfigBytes);
    const auto at = text.find(old);
    ASSERT_NE(at, std::string::npos);
    write(name, text.replace(at, old.size(), with));
  }
  void refused(std::string_view part, ErrorCode code = ErrorCode::kCorruptFile) {
    const auto result = open_model(folder_.string());
    ASSERT_FALSE(result) << "expected an error with: " << part;
    EXPECT_EQ(result.error().code, code) << result.error().message;
    EXPECT_NE(result.error().message.find(part), std::string::npos) << result.error().message << "\nlacks: " << part;
  }

  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / fmt::format("weir_model_files_test_{}", getpid());
};

TEST_F(SpoiledFolder, SizesThatTheTensorsDeny) {
  replace("config.json", "\"intermediate_size\": 48", "\"intermediate_size\": 64");
  refused("tensor \"model.layers.0.mlp.gate_proj.weight\" has shape [48, 32]; the model's sizes ask for [64, 32]");
}

TEST_F(SpoiledFolder, MoreLayersThanTensors) {
  replace("config.json", "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3");
  refused("9 tensors of the model are missing: model.layers.2.input_layernorm.weight");
}

TEST_F(SpoiledFolder, FewerLayersThanTensors) {
  replace("config.json", "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 1");
  refused("9 tensors are not part of this model family", ErrorCode::kUnsupported);
}

TEST_F(SpoiledFolder, ATiedModelMayBringItsHead) {
  replace("config.json", "\"tie_word_embeddings\": false", "\"tie_word_embeddings\": true");
  EXPECT_TRUE(open(folder_.string()).spec.tied_embeddings);
}

TEST_F(SpoiledFolder, MissingFiles) {
  std::filesystem::remove(folder_ / "tokenizer.json");
  refused("tokenizer.json: no such file", ErrorCode::kNotFound);
  std::filesystem::remove(folder_ / "model.safetensors");
  refused("neither model.safetensors", ErrorCode::kNotFound);
  std::filesystem::remove(folder_ / "config.json");
  refused("config.json: no such file", ErrorCode::kNotFound);
  std::filesystem::remove_all(folder_);
  refused("no such file or folder", ErrorCode::kNotFound);
}

TEST_F(SpoiledFolder, EndTokens) {
  write("generation_config.json", R"({"eos_token_id": 7})");
  EXPECT_EQ(open(folder_.string()).generation.eos_ids, std::vector<TokenId>{7});
  write("generation_config.json", "{}");
  EXPECT_EQ(open(folder_.string()).generation.eos_ids, std::vector<TokenId>{2});  // config.json's
  std::filesystem::remove(folder_ / "generation_config.json");
  EXPECT_EQ(open(folder_.string()).generation.eos_ids, std::vector<TokenId>{2});
  write("generation_config.json", R"({"eos_token_id": [1, 288]})");
  refused("holds 288; a token id from 0 to 287");
  write("generation_config.json", R"({"eos_token_id": "2"})");
  refused("eos_token_id");
  write("generation_config.json", R"({"temperature": -1})");
  refused("temperature");
  write("generation_config.json", "{");
  refused("not valid JSON");
}

TEST_F(SpoiledFolder, Templates) {
  std::filesystem::create_directories(folder_ / "additional_chat_templates");
  write("additional_chat_templates/rag.jinja", "rag");
  write("tokenizer_config.json", R"({"chat_template": "overruled"})");
  const ModelFiles model = open(folder_.string());
  EXPECT_NE(model.chat_templates.at(""), "overruled");
  EXPECT_EQ(model.chat_templates.at("rag"), "rag");
  std::filesystem::remove(folder_ / "chat_template.jinja");
  EXPECT_EQ(open(folder_.string()).chat_templates.at(""), "overruled");
  write("tokenizer_config.json", R"({"chat_template": [{"name": "x"}]})");
  refused("lacks \"name\" or \"template\"");
  write("tokenizer_config.json", R"({"chat_template": 5})");
  refused("no string");
  write("tokenizer_config.json", "{}");
  write("chat_template.jinja", std::string(2 << 20, 'x'));
  refused("larger than", ErrorCode::kTooLarge);
}

// Stands for the engine's layout.
KvCost some_cost(const ModelSpec& spec, tensor::DType dtype) {
  return {.bytes_per_token = (dtype == tensor::DType::kF16 ? 2.0 : 4.0) * spec.layers, .bytes_of_context = 77};
}

TEST(Inspect, DescribesModels) {
  const auto text = describe_model(kModels + "gguf/gemma3.gguf", {}, some_cost);
  ASSERT_TRUE(text) << text.error().message;
  for (const auto* part :
       {"GGUF v3", "gemma3", "6 of hidden size 32", "5 layers see 24 tokens", "KV per token", "chat template    yes"}) {
    EXPECT_NE(text->find(part), std::string::npos) << part << " in\n" << *text;
  }
  EXPECT_NE(text->find("layers 0 to 5"), std::string::npos) << *text;
  const auto json = describe_model(kModels + "qwen2", {.format = InspectFormat::kJson}, some_cost);
  ASSERT_TRUE(json) << json.error().message;
  EXPECT_NE(json->find("\"supported\": true"), std::string::npos);
}

TEST_F(SpoiledFolder, InspectShowsWhatIsThereOfFilesCutShort) {
  const auto shown = [](const std::filesystem::path& path) {
    const auto text = describe_model(path.string(), {}, some_cost);
    EXPECT_TRUE(text) << text.error().message;
    return text.value_or("");
  };
  const auto holds = [](const std::string& text, std::vector<std::string> parts) {
    for (const std::string& part : parts) EXPECT_NE(text.find(part), std::string::npos) << part << " in\n" << text;
  };
  const auto file = folder_ / "cut.gguf";
  std::filesystem::copy_file(kModels + "gguf/llama.gguf", file);
  const auto size = std::filesystem::file_size(file);
  std::filesystem::resize_file(file, size - 1);
  const std::string all = shown(file);
  holds(all, {"GGUF v3, damaged or not complete", "bytes at offset", "is the file cut short?", "llama.block_count = 2",
              "token_embd.weight F32 [288, 32]", "output_norm.weight F32 [32]"});
  // Whatever is left of it, what comes out is a description or an error.
  for (const double part : {0.5, 0.2, 0.1, 0.01, 0.001}) {
    std::filesystem::resize_file(file, static_cast<std::uintmax_t>(static_cast<double>(size) * part));
    const auto text = describe_model(file.string(), {}, some_cost);
    EXPECT_TRUE(text || text.error().code == ErrorCode::kCorruptFile);
  }
  std::filesystem::copy_file(kModels + "gguf/llama-split-00001-of-00002.gguf",
                             folder_ / "llama-split-00001-of-00002.gguf");
  holds(shown(folder_ / "llama-split-00001-of-00002.gguf"),
        {"llama-split-00002-of-00002.gguf", "llama.block_count = 2", "token_embd.weight F32 [288, 32]"});

  const auto weights = folder_ / "model.safetensors";
  std::filesystem::resize_file(weights, std::filesystem::file_size(weights) - 1);
  holds(shown(folder_), {"safetensors, damaged or not complete", "cannot be read", "is the file cut short?",
                         "2 of hidden size 32", "layers 0 to 1"});
}

TEST(Inspect, NamesShardsThatAreMissing) {
  const std::filesystem::path folder = testing::TempDir() + "weir_missing_shard";
  std::filesystem::remove_all(folder);
  std::filesystem::copy(kModels + "llama-sharded", folder);
  std::filesystem::remove(folder / "model-00002-of-00003.safetensors");
  const auto text = describe_model(folder.string(), {}, some_cost);
  ASSERT_TRUE(text) << text.error().message;
  for (const auto* part : {"model-00002-of-00003.safetensors: this shard is missing", "2 of hidden size", "tensors  "})
    EXPECT_NE(text->find(part), std::string::npos) << part << " in\n" << *text;
  const auto json = describe_model(folder.string(), {.format = InspectFormat::kJson}, some_cost);
  ASSERT_TRUE(json);
  EXPECT_NE(json->find("\"supported\": false"), std::string::npos);
  std::filesystem::remove_all(folder);
}

TEST_F(SpoiledFolder, InspectNeedsOnlyTheConfiguration) {
  std::filesystem::remove(folder_ / "model.safetensors");
  const auto text = describe_model(folder_.string(), {}, some_cost);
  ASSERT_TRUE(text) << text.error().message;
  for (const auto* part :
       {"without weights", "2 of hidden size 32", "KV per token     4 bytes (0.00390625 KiB) in F16"})
    EXPECT_NE(text->find(part), std::string::npos) << part << " in\n" << *text;
  replace("config.json", "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 0");
  EXPECT_EQ(describe_model(folder_.string(), {}, some_cost).error().code, ErrorCode::kCorruptFile);
}

TEST_F(SpoiledFolder, InspectShowsWhatCannotBeServed) {
  replace("config.json", "LlamaForCausalLM", "Lla\\u001b[2JmaForCausalLM");
  const auto text = describe_model(folder_.string(), {}, some_cost);
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_NE(text->find("cannot be served"), std::string::npos);
  EXPECT_NE(text->find("hidden_size = 32"), std::string::npos);
  EXPECT_NE(text->find("model.norm.weight F32 [32]"), std::string::npos);
  EXPECT_EQ(text->find('\x1b'), std::string::npos);
  write("model.safetensors", "damaged");
  const auto config_only = describe_model(folder_.string(), {}, some_cost);
  ASSERT_TRUE(config_only) << config_only.error().message;
  for (const auto* part : {"hidden_size = 32", "cannot be served", "cannot be read", "model.safetensors"})
    EXPECT_NE(config_only->find(part), std::string::npos) << part << " in\n" << *config_only;
  write("config.json", "damaged");
  EXPECT_EQ(describe_model(folder_.string(), {}, some_cost).error().code, ErrorCode::kCorruptFile);
}

}  // namespace
}  // namespace weir::load
