// What `weir inspect` prints of the KV cache is what the engine allocates and sequences take, for every tiny model of
// tests/golden/models and each KV type. Prints are read as a user's program would read them.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <nlohmann/json.hpp>

#include "engine/engine.h"
#include "engine/kv_sizing.h"
#include "load/inspect.h"

namespace weir::engine {
namespace {

const std::filesystem::path kModels = WEIR_SOURCE_DIR "/tests/golden/models";

std::vector<std::string> model_paths() {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(kModels)) {
    if (std::filesystem::exists(entry.path() / "config.json")) paths.push_back(entry.path());
  }
  for (const char* folder : {"gguf", "quant"}) {
    for (const auto& entry : std::filesystem::directory_iterator(kModels / folder)) {
      const std::string name = entry.path().filename();
      const bool later_part = name.find("-of-") != std::string::npos && name.find("-00001-of-") == std::string::npos;
      if (entry.path().extension() == ".gguf" && !later_part) paths.push_back(entry.path());
    }
  }
  std::ranges::sort(paths);
  return paths;
}

nlohmann::json inspected(const std::string& path, std::int64_t context) {
  const auto text = describe_model(path, {.format = load::InspectFormat::kJson, .context = context}, kv_cost);
  EXPECT_TRUE(text) << text.error().message;
  return nlohmann::json::parse(*text);
}

// Bytes of the pool that a sequence held at most while it grew to so many tokens, and their type.
struct Held {
  std::int64_t bytes = 0;
  std::string dtype;
};

Held hold(const std::string& path, const std::string& dtype, std::int64_t tokens) {
  auto files = load::open_model(path);
  EXPECT_TRUE(files) << files.error().message;
  std::atomic<std::int64_t> most = 0;
  EngineConfig config;
  config.threads = 1;
  config.kv_cache_dtype = dtype;
  config.max_model_len = tokens + 1;
  config.num_kv_blocks = 400;
  config.enable_prefix_caching = false;  // kept copies of recurrent state are nobody's
  config.max_num_batched_tokens = 1;     // a longer step holds more of a window
  config.on_step = [&](const StepRecord& step) { most = std::max<std::int64_t>(most, step.kv_blocks_in_use); };
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  const auto sink = [&](std::vector<SequenceOutput>& outputs) {
    const std::lock_guard lock(mutex);
    for (const SequenceOutput& output : outputs) done = done || output.finish.has_value();
    changed.notify_all();
  };
  const auto engine = Engine::create(config, *files, sink);
  EXPECT_TRUE(engine) << engine.error().message;
  SequenceRequest request;
  request.prompt.assign(static_cast<std::size_t>(tokens), 5);
  request.sampling.max_tokens = 1;
  request.sampling.ignore_eos = true;
  EXPECT_TRUE((*engine)->submit(std::move(request)));
  std::unique_lock lock(mutex);
  EXPECT_TRUE(changed.wait_for(lock, std::chrono::minutes(5), [&] { return done; }));
  const EngineInfo& info = (*engine)->info();
  EXPECT_EQ(info.kv_bytes % info.num_kv_blocks, 0);
  return {.bytes = most * (info.kv_bytes / info.num_kv_blocks), .dtype = info.kv_dtype};
}

std::int64_t printed(const nlohmann::json& facts, const std::string& dtype, std::int64_t tokens) {
  const double per_token = facts["kv_bytes_per_token"][dtype];
  const std::int64_t state = facts.contains("state_bytes") ? facts["state_bytes"][dtype].get<std::int64_t>() : 0;
  return static_cast<std::int64_t>(per_token * static_cast<double>(tokens)) + state;
}

TEST(KvCost, WhatInspectPrintsOfATokenIsWhatSequencesTake) {
  const auto paths = model_paths();
  ASSERT_GE(paths.size(), 60u);
  for (const std::string& path : paths) {
    SCOPED_TRACE(path);
    // Of whole blocks, before any window has passed: the smallest of these models' windows is 24.
    constexpr std::int64_t kTokens = 16;
    const nlohmann::json facts = inspected(path, kTokens);
    for (const std::string dtype : {"f32", "f16", "bf16"}) {
      EXPECT_EQ(hold(path, dtype, kTokens).bytes, printed(facts, dtype, kTokens)) << dtype;
    }
  }
}

TEST(KvCost, WhatInspectPrintsOfAContextIsWhatSequencesTake) {
  for (const std::string& path : model_paths()) {
    SCOPED_TRACE(path);
    constexpr std::int64_t kTokens = 150;
    const nlohmann::json facts = inspected(path, kTokens);
    ASSERT_EQ(facts["memory"]["context"], kTokens);
    std::string dtype = facts["memory"]["kv_dtype"];
    const Held held = hold(path, "auto", kTokens);
    std::ranges::transform(dtype, dtype.begin(), [](unsigned char c) { return std::toupper(c); });
    EXPECT_EQ(held.dtype, dtype);
    EXPECT_EQ(static_cast<double>(held.bytes), facts["memory"]["kv"].get<double>());
  }
}

}  // namespace
}  // namespace weir::engine
