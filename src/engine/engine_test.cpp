// The engine over tiny models whose outputs the reference implementation recorded (tests/golden/models, made by
// tools/gen_tiny_models.py): right alone, and the same bytes in every circumstance.
#include "engine/engine.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>

namespace weir::engine {
namespace {

struct Case {
  std::vector<TokenId> prompt, greedy;
  std::vector<std::vector<std::pair<TokenId, float>>> top;  // per step
  std::vector<float> prompt_logprobs;                       // of prompt tokens 1 ..
};

std::string model_path(const std::string& name) {
  return std::string(WEIR_SOURCE_DIR "/tests/golden/models/") + name;
}

std::vector<Case> read_cases(const std::string& name) {
  std::ifstream file(model_path(name) + "/cases.json");
  std::vector<Case> cases;
  const auto contents = nlohmann::json::parse(file);
  for (const auto& json : contents.at("cases")) {
    cases.push_back({json.at("prompt_ids"), json.at("greedy_ids"), json.at("top"), json.at("prompt_logprobs")});
  }
  return cases;
}

// Everything a sequence got, in one piece.
struct Reply {
  std::vector<TokenId> tokens;
  std::vector<PositionLogprobs> logprobs, prompt_logprobs;
  std::optional<FinishReason> finish;
  std::string error;
};

// Compares to the bit: floats by value, which for finite numbers is the same.
void expect_same(const Reply& a, const Reply& b, const std::string& what) {
  EXPECT_EQ(a.tokens, b.tokens) << what;
  const auto same = [&](const std::vector<PositionLogprobs>& x, const std::vector<PositionLogprobs>& y) {
    ASSERT_EQ(x.size(), y.size()) << what;
    for (std::size_t i = 0; i < x.size(); ++i) {
      EXPECT_EQ(x[i].chosen.logprob, y[i].chosen.logprob) << what << ", entry " << i;
      ASSERT_EQ(x[i].top.size(), y[i].top.size()) << what;
      for (std::size_t k = 0; k < x[i].top.size(); ++k) {
        EXPECT_EQ(x[i].top[k].id, y[i].top[k].id) << what;
        EXPECT_EQ(x[i].top[k].logprob, y[i].top[k].logprob) << what;
      }
    }
  };
  same(a.logprobs, b.logprobs);
  same(a.prompt_logprobs, b.prompt_logprobs);
}

class Session {
 public:
  Session(const std::string& path, const EngineConfig& config) {
    auto files = load::open_model(path);
    if (!files) throw std::runtime_error(files.error().message);
    auto engine = Engine::create(config, *files, [this](std::vector<SequenceOutput>& outputs) { take(outputs); });
    if (!engine) throw std::runtime_error(engine.error().message);
    engine_ = std::move(*engine);
  }

  Engine& engine() { return *engine_; }

  // Submits all at once, waits for all.
  std::vector<Reply> run(std::vector<SequenceRequest> requests) {
    const auto ids = engine_->submit_all(std::move(requests));
    if (!ids) throw std::runtime_error(ids.error().message);
    std::unique_lock lock(mutex_);
    std::vector<Reply> out;
    for (const SeqId id : *ids) {
      const bool came =
          changed_.wait_for(lock, std::chrono::minutes(5), [&] { return replies_[id].finish.has_value(); });
      EXPECT_TRUE(came) << "sequence " << value(id) << " did not end";
      out.push_back(replies_[id]);
    }
    return out;
  }

 private:
  void take(std::vector<SequenceOutput>& outputs) {
    const std::lock_guard lock(mutex_);
    for (SequenceOutput& o : outputs) {
      Reply& reply = replies_[o.id];
      reply.tokens.insert(reply.tokens.end(), o.tokens.begin(), o.tokens.end());
      reply.logprobs.insert(reply.logprobs.end(), o.logprobs.begin(), o.logprobs.end());
      reply.prompt_logprobs.insert(reply.prompt_logprobs.end(), o.prompt_logprobs.begin(), o.prompt_logprobs.end());
      if (o.finish) reply.finish = o.finish;
      reply.error += o.error;
    }
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<SeqId, Reply> replies_;
  std::unique_ptr<Engine> engine_;  // last: its thread stops before the replies go
};

SequenceRequest greedy(const Case& c, bool prompt_logprobs = true) {
  SequenceRequest request;
  request.prompt = c.prompt;
  request.sampling.temperature = 0.0f;
  request.sampling.max_tokens = static_cast<std::int64_t>(c.greedy.size());
  request.sampling.logprobs = 20;
  request.sampling.prompt_logprobs = prompt_logprobs ? 1 : -1;
  request.sampling.ignore_eos = true;
  return request;
}

EngineConfig small_config() {
  EngineConfig config;
  config.threads = 2;
  config.kv_cache_memory_bytes = 64 << 20;
  return config;
}

class Golden : public ::testing::TestWithParam<std::string> {};

TEST_P(Golden, EqualsTheReferenceWithinItsRounding) {
  // Recorded with 32-bit activations and KV; BF16 weights are multiplied with BF16 activations here.
  const float tolerance = GetParam().find("bf16") != std::string::npos ? 6e-2f : 2e-3f;
  Session session(model_path(GetParam()), small_config());
  for (const Case& c : read_cases(GetParam())) {
    const Reply reply = session.run({greedy(c)}).front();
    ASSERT_EQ(reply.prompt_logprobs.size(), c.prompt.size() - 1);
    for (std::size_t i = 0; i < c.prompt_logprobs.size(); ++i) {
      EXPECT_NEAR(reply.prompt_logprobs[i].chosen.logprob, c.prompt_logprobs[i], tolerance) << "prompt token " << i + 1;
    }
    ASSERT_EQ(reply.tokens.size(), c.greedy.size());
    for (std::size_t step = 0; step < c.greedy.size(); ++step) {
      if (c.top[step][0].second - c.top[step][1].second < tolerance) break;  // a tie: either may come
      ASSERT_EQ(reply.tokens[step], c.greedy[step]) << "step " << step;
      EXPECT_NEAR(reply.logprobs[step].chosen.logprob, c.top[step][0].second, tolerance) << "step " << step;
    }
  }
}

TEST_P(Golden, SameBytesInEveryCircumstance) {
  const std::vector<Case> cases = read_cases(GetParam());
  std::vector<Reply> alone;
  {
    Session session(model_path(GetParam()), small_config());
    for (const Case& c : cases) alone.push_back(session.run({greedy(c)}).front());
  }
  struct Circumstance {
    std::string what;
    int block_size, budget, threads;
    std::uint32_t blocks;  // 0 = ample
  };
  for (const Circumstance& how :
       {Circumstance{"blocks of 1 token", 1, 64, 2, 0}, Circumstance{"a budget of 1", 16, 1, 1, 0},
        Circumstance{"odd chunks, three threads", 5, 37, 3, 0},
        Circumstance{"a pool too small for all", 16, 64, 2, 72}}) {
    EngineConfig config = small_config();
    config.block_size = how.block_size;
    config.max_num_batched_tokens = how.budget;
    config.threads = how.threads;
    if (how.blocks > 0) config.num_kv_blocks = how.blocks;
    Session session(model_path(GetParam()), config);
    // Every case three times at once, the last time without prompt logprobs, so that it may use cached blocks.
    std::vector<SequenceRequest> requests;
    for (int round = 0; round < 3; ++round) {
      for (const Case& c : cases) requests.push_back(greedy(c, /*prompt_logprobs=*/round < 2));
    }
    const std::vector<Reply> replies = session.run(std::move(requests));
    for (std::size_t i = 0; i < replies.size(); ++i) {
      Reply expected = alone[i % cases.size()];
      if (i >= 2 * cases.size()) expected.prompt_logprobs.clear();
      expect_same(expected, replies[i], fmt::format("{}, reply {}", how.what, i));
    }
    // Again, now from the cache.
    for (std::size_t i = 0; i < cases.size(); ++i) {
      Reply expected = alone[i];
      expected.prompt_logprobs.clear();
      expect_same(expected, session.run({greedy(cases[i], false)}).front(), fmt::format("{}, cached", how.what));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Golden,
                         ::testing::Values("llama", "llama-bf16", "llama-bias-linear", "llama-sharded", "llama-yarn",
                                           "llama3-rope", "mistral-swa", "qwen2", "qwen2-yarn", "qwen3", "gemma3",
                                           "gemma3-old-keys"),
                         [](const auto& param) {
                           std::string name = param.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(Engine, SeededSamplingDoesNotDependOnNeighbours) {
  const std::vector<Case> cases = read_cases("llama");
  Session session(model_path("llama"), small_config());
  const auto sampled = [&](std::uint64_t seed) {
    SequenceRequest request = greedy(cases[0], false);
    request.sampling.temperature = 1.0f;
    request.sampling.top_p = 0.9f;
    request.sampling.max_tokens = 40;
    request.sampling.seed = seed;
    return request;
  };
  const Reply alone = session.run({sampled(7)}).front();
  const std::vector<Reply> among = session.run({greedy(cases[1]), sampled(8), sampled(7), greedy(cases[2])});
  expect_same(alone, among[2], "seed 7");
  EXPECT_NE(alone.tokens, among[1].tokens) << "another seed";
}

TEST(Engine, RefusesWhatCanNeverFit) {
  EngineConfig config = small_config();
  config.num_kv_blocks = 2;
  config.max_num_batched_tokens = 16;
  Session session(model_path("llama"), config);
  SequenceRequest request;
  request.prompt.assign(40, 5);
  const auto refused = session.engine().submit(request);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kContextLengthExceeded);
  request.prompt.assign(10, 5);
  request.sampling.max_tokens = 4;
  EXPECT_EQ(session.run({request}).front().tokens.size(), 4u) << "what fits still runs";
}

TEST(Engine, MaxTokensZeroReadsThePromptOnly) {
  Session session(model_path("llama"), small_config());
  SequenceRequest request = greedy(read_cases("llama")[1]);
  request.sampling.max_tokens = 0;
  const std::size_t prompt = request.prompt.size();
  const Reply reply = session.run({request}).front();
  EXPECT_TRUE(reply.tokens.empty());
  EXPECT_EQ(reply.prompt_logprobs.size(), prompt - 1);
  EXPECT_EQ(reply.finish, FinishReason::kLength);
}

// A copy of the tiny Llama with one weight of the last norm a NaN: every logit is.
class BrokenModel {
 public:
  BrokenModel() : folder_(std::filesystem::temp_directory_path() / fmt::format("weir-broken-{}", ::getpid())) {
    std::filesystem::copy(model_path("llama"), folder_);
    const auto path = folder_ / "model.safetensors";
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    std::uint64_t header_bytes = 0;
    file.read(reinterpret_cast<char*>(&header_bytes), sizeof(header_bytes));
    std::string header(header_bytes, ' ');
    file.read(header.data(), static_cast<std::streamsize>(header_bytes));
    const std::uint64_t at = nlohmann::json::parse(header).at("model.norm.weight").at("data_offsets").at(0);
    const float nan = std::numeric_limits<float>::quiet_NaN();
    file.seekp(static_cast<std::streamoff>(sizeof(header_bytes) + header_bytes + at));
    file.write(reinterpret_cast<const char*>(&nan), sizeof(nan));
  }
  ~BrokenModel() { std::filesystem::remove_all(folder_); }
  std::string path() const { return folder_.string(); }

 private:
  std::filesystem::path folder_;
};

TEST(Engine, BrokenLogitsEndASequenceAndSayWhere) {
  const BrokenModel model;
  EngineConfig config = small_config();
  config.max_num_batched_tokens = 16;
  Session session(model.path(), config);
  SequenceRequest sampled;
  sampled.prompt.assign(20, 5);
  SequenceRequest with_logprobs = sampled;
  with_logprobs.sampling.logprobs = 2;
  SequenceRequest prompt_only = sampled;
  prompt_only.sampling.max_tokens = 0;
  prompt_only.sampling.prompt_logprobs = 2;
  SequenceRequest unread = sampled;  // nobody asks for logits, so nobody misses them
  unread.sampling.max_tokens = 0;
  const std::vector<Reply> replies = session.run({sampled, with_logprobs, prompt_only, unread});
  for (int i = 0; i < 3; ++i) {
    const Reply& reply = replies[static_cast<std::size_t>(i)];
    EXPECT_EQ(reply.finish, FinishReason::kError) << i;
    EXPECT_TRUE(reply.tokens.empty() && reply.prompt_logprobs.empty()) << i;
    EXPECT_EQ(reply.error, fmt::format("the model's logits for position {} hold a NaN", i == 2 ? 1 : 20)) << i;
  }
  EXPECT_EQ(replies[3].finish, FinishReason::kLength);
  EXPECT_EQ(session.engine().stats().kv_blocks_in_use, 0u);
}

TEST(Engine, CancellingFreesEverything) {
  Session session(model_path("llama"), small_config());
  SequenceRequest request = greedy(read_cases("llama")[0], false);
  request.sampling.max_tokens = 500;
  const auto id = session.engine().submit(request);
  ASSERT_TRUE(id);
  session.engine().cancel(*id);
  for (int i = 0; i < 500 && session.engine().stats().running + session.engine().stats().waiting > 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(session.engine().stats().running, 0);
  EXPECT_EQ(session.engine().stats().kv_blocks_in_use, 0u);
}

}  // namespace
}  // namespace weir::engine
