// A step of decoding sequences allocates nothing once the buffers have their size: counted at malloc, over all threads.
#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstdlib>
#include <mutex>

#include "engine/engine.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define WEIR_COUNTS_ALLOCATIONS 0  // the sanitizers have malloc to themselves
#else
#define WEIR_COUNTS_ALLOCATIONS 1
#endif

namespace {
std::atomic<std::int64_t> allocations{0};
}

#if WEIR_COUNTS_ALLOCATIONS
extern "C" {
void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t count, std::size_t size);
void* __libc_realloc(void* old, std::size_t size);
void* __libc_memalign(std::size_t alignment, std::size_t size);

void* malloc(std::size_t size) {
  ++allocations;
  return __libc_malloc(size);
}
void* calloc(std::size_t count, std::size_t size) {
  ++allocations;
  return __libc_calloc(count, size);
}
void* realloc(void* old, std::size_t size) {
  ++allocations;
  return __libc_realloc(old, size);
}
void* aligned_alloc(std::size_t alignment, std::size_t size) {
  ++allocations;
  return __libc_memalign(alignment, size);
}
int posix_memalign(void** out, std::size_t alignment, std::size_t size) {
  ++allocations;
  *out = __libc_memalign(alignment, size);
  return *out == nullptr ? ENOMEM : 0;
}
}
#endif

namespace weir::engine {
namespace {

constexpr std::int64_t kWarmUpTokens = 40, kTokens = 200;

class AllocationTest : public ::testing::TestWithParam<const char*> {};

TEST_P(AllocationTest, steady_steps_allocate_nothing) {
  if (!WEIR_COUNTS_ALLOCATIONS) GTEST_SKIP() << "needs malloc to itself";
  if (std::getenv("WEIR_PARANOID") != nullptr) GTEST_SKIP() << "the audit of every step allocates";
  auto files = load::open_model(std::string(WEIR_SOURCE_DIR "/tests/golden/models/") + GetParam());
  ASSERT_TRUE(files) << files.error().message;
  EngineConfig config;
  config.threads = 2;
  config.kv_cache_memory_bytes = 64 << 20;
  std::mutex mutex;
  std::condition_variable changed;
  int running = 0;
  std::int64_t steps = 0, at_warm_up = 0, in_steady_steps = 0;
  auto engine = Engine::create(config, *files, [&](std::vector<SequenceOutput>& outputs) {
    ++steps;
    if (steps == kWarmUpTokens) at_warm_up = allocations;
    if (steps == kTokens - 2) in_steady_steps = allocations - at_warm_up;
    for (const SequenceOutput& output : outputs) {
      if (!output.finish) continue;
      const std::lock_guard lock(mutex);
      --running;
      changed.notify_one();
    }
  });
  ASSERT_TRUE(engine) << engine.error().message;
  std::vector<SequenceRequest> requests(4);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    for (TokenId token = 0; token < 20; ++token) requests[i].prompt.push_back(token + 5 + static_cast<TokenId>(i));
    auto& sampling = requests[i].sampling;
    sampling.max_tokens = kTokens;
    sampling.ignore_eos = true;
    sampling.seed = i;
    if (i == 0) sampling.temperature = 0.0f;  // each way through the sampler
    if (i == 2) sampling.top_k = 10;
    if (i == 3) sampling.top_p = 0.9f;
  }
  running = static_cast<int>(requests.size());
  ASSERT_TRUE((*engine)->submit_all(std::move(requests)));
  std::unique_lock lock(mutex);
  ASSERT_TRUE(changed.wait_for(lock, std::chrono::minutes(2), [&] { return running == 0; }));
  EXPECT_GE(steps, kTokens);
  EXPECT_EQ(in_steady_steps, 0);
}

INSTANTIATE_TEST_SUITE_P(Models, AllocationTest, ::testing::Values("llama", "gemma3", "mistral-swa", "quant/Q4_K.gguf"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace_if(name.begin(), name.end(), [](char c) { return !std::isalnum(c); }, '_');
                           return name;
                         });

}  // namespace
}  // namespace weir::engine
