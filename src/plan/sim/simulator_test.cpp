// The simulator against what must hold for any cluster and workload, drawn at random.
#include "plan/sim/simulator.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

namespace weir::plan::sim {
namespace {

// Odd coefficients, so that equal times are by design and not by chance.
class LinearModel final : public StepModel {
 public:
  double step_s(const StepShape& s) const override {
    return 0.003 + 1.7e-5 * static_cast<double>(s.tokens) + 3.1e-9 * s.attended + 2.3e-8 * s.context_read +
           1.1e-5 * static_cast<double>(s.samples);
  }
};

const LinearModel kModel;

InstanceConfig small_instance() {
  InstanceConfig config;
  config.scheduler.max_num_seqs = 8;
  config.scheduler.max_num_batched_tokens = 64;
  config.block_tokens = 16;
  config.num_blocks = 64;
  config.model = &kModel;
  return config;
}

class Draw {
 public:
  explicit Draw(std::uint32_t seed) : random_(seed) {}
  std::size_t below(std::size_t n) { return random_() % n; }
  bool chance(std::size_t one_in) { return below(one_in) == 0; }

  Cluster cluster() {
    Cluster cluster;
    cluster.instances = static_cast<int>(1 + below(3));
    cluster.instance = small_instance();
    cluster.instance.num_blocks = static_cast<std::uint32_t>(14 + below(80));
    cluster.instance.scheduler.enable_prefix_caching = !chance(4);
    if (chance(4)) cluster.instance.windows = {0, 40};
    if (chance(3)) cluster.instance.scheduler.policy = sched::Policy::kPriority;
    if (chance(3)) cluster.instance.overheads = {0.002, 1e-6, 0.0005};
    cluster.kv_bytes_per_token = 1e5;
    if (chance(3)) {
      cluster.decode_instances = static_cast<int>(1 + below(2));
      cluster.decode = small_instance();
      cluster.decode.block_tokens = chance(2) ? 16 : 8;
      cluster.decode.num_blocks = static_cast<std::uint32_t>(40 + below(100));
      cluster.handover = {chance(3) ? 0 : 1e8, chance(2) ? 0 : 0.001, 8, chance(2)};
    }
    if (chance(3)) cluster.tiers = {{"dram", 3e7, 1e10, 1e-5, chance(2)}, {"nvme", 3e8, 1e9, 1e-4, chance(2)}};
    cluster.routing = static_cast<Routing>(below(3));
    return cluster;
  }

  Workload workload() {
    Workload workload;
    workload.id_tokens = 1 + static_cast<std::int64_t>(below(40));
    double at = 0;
    const bool ticks = chance(3);  // many at the same time
    for (std::size_t i = 0; i < 150; ++i) {
      Request request;
      if (!ticks || chance(4)) at += ticks ? 0.25 : static_cast<double>(below(1000)) * 5e-5;
      request.arrival_s = at;
      request.prompt_tokens = static_cast<std::int64_t>(1 + below(chance(3) ? 300 : 60));
      request.output_tokens = chance(10) ? 0 : static_cast<std::int64_t>(1 + below(chance(4) ? 200 : 20));
      request.priority = static_cast<int>(below(3));
      request.first_id = static_cast<std::uint32_t>(workload.ids.size());
      request.id_count = static_cast<std::uint32_t>(below(12));
      const std::size_t text = below(4);
      for (std::size_t k = 0; k < request.id_count; ++k) workload.ids.push_back(chance(9) ? random_() : 100 * text + k);
      workload.requests.push_back(request);
    }
    if (chance(3)) workload.concurrency = static_cast<int>(1 + below(12));
    if (chance(2)) workload.think_s = 0.01;
    return workload;
  }

 private:
  std::mt19937 random_;
};

bool same_bytes(double a, double b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}

void expect_same(const SimResult& a, const SimResult& b) {
  ASSERT_EQ(a.requests.size(), b.requests.size());
  for (std::size_t i = 0; i < a.requests.size(); ++i) {
    const RequestResult &x = a.requests[i], &y = b.requests[i];
    EXPECT_TRUE(same_bytes(x.first_s, y.first_s) && same_bytes(x.last_s, y.last_s) && same_bytes(x.sent_s, y.sent_s) &&
                same_bytes(x.scheduled_s, y.scheduled_s) && same_bytes(x.longest_gap_s, y.longest_gap_s))
        << "request " << i << ": " << x.first_s << " " << x.last_s << " against " << y.first_s << " " << y.last_s;
    EXPECT_EQ(x.cached_tokens, y.cached_tokens);
    EXPECT_EQ(x.loaded_tokens, y.loaded_tokens);
    EXPECT_EQ(x.preemptions, y.preemptions);
    EXPECT_EQ(x.instance, y.instance);
    EXPECT_EQ(x.output_tokens, y.output_tokens);
  }
  for (std::size_t i = 0; i < a.instances.size(); ++i) {
    EXPECT_EQ(a.instances[i].steps, b.instances[i].steps);
    EXPECT_EQ(a.instances[i].tokens, b.instances[i].tokens);
    EXPECT_TRUE(same_bytes(a.instances[i].busy_s, b.instances[i].busy_s));
    EXPECT_TRUE(same_bytes(a.instances[i].kv_usage_s, b.instances[i].kv_usage_s));
    EXPECT_EQ(a.instances[i].most_running, b.instances[i].most_running);
  }
  for (const double p : {1.0, 50.0, 99.0, 100.0}) EXPECT_TRUE(same_bytes(a.itl_s.percentile(p), b.itl_s.percentile(p)));
  EXPECT_TRUE(same_bytes(a.itl_s.mean(), b.itl_s.mean()));
  EXPECT_EQ(a.itl_s.count(), b.itl_s.count());
  EXPECT_TRUE(same_bytes(a.in_system_s, b.in_system_s));
}

void expect_sound(const Cluster& cluster, const Workload& workload, const SimResult& result) {
  ASSERT_EQ(result.requests.size(), workload.requests.size());
  double spent_s = 0;
  std::int64_t gaps = 0;
  for (std::size_t i = 0; i < result.requests.size(); ++i) {
    const Request& asked = workload.requests[i];
    const RequestResult& got = result.requests[i];
    if (got.refused) {
      EXPECT_EQ(got.output_tokens, 0);
      continue;
    }
    ASSERT_TRUE(got.finished()) << "request " << i;
    EXPECT_EQ(got.output_tokens, asked.output_tokens);
    if (workload.concurrency == 0) {
      EXPECT_EQ(got.sent_s, asked.arrival_s);
    }
    EXPECT_GE(got.scheduled_s, got.sent_s + cluster.instance.overheads.request_s);
    EXPECT_GT(got.first_s, got.scheduled_s + cluster.instance.overheads.output_s);
    EXPECT_GE(got.last_s, got.first_s);
    EXPECT_LT(got.cached_tokens + got.loaded_tokens, asked.prompt_tokens);
    gaps += std::max<std::int64_t>(0, got.output_tokens - 1);
    spent_s += got.e2e_s();
  }
  EXPECT_EQ(result.itl_s.count(), gaps) << "one gap between two tokens";
  EXPECT_NEAR(result.in_system_s, spent_s, 1e-9 * spent_s) << "Little's law";
  for (const InstanceResult& instance : result.instances) {
    EXPECT_LE(instance.busy_s, result.end_s * (1 + 1e-12));
    EXPECT_LE(instance.kv_peak, 1);
  }
}

TEST(Simulator, KeepsItsPromisesOnRandomClustersAndGivesTheSameInBulk) {
  std::int64_t in_bulk = 0, preemptions = 0, loaded = 0, refused = 0;
  for (std::uint32_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Draw draw(seed);
    Cluster cluster = draw.cluster();
    const Workload workload = draw.workload();
    const auto once = simulate(cluster, workload);
    ASSERT_TRUE(once.has_value()) << once.error().message;
    expect_sound(cluster, workload, *once);
    expect_same(*once, *simulate(cluster, workload));
    cluster.in_bulk = false;
    const auto stepwise = simulate(cluster, workload);
    EXPECT_EQ(stepwise->steps_in_bulk, 0);
    expect_same(*once, *stepwise);
    in_bulk += once->steps_in_bulk;
    for (const RequestResult& request : once->requests) {
      preemptions += request.preemptions;
      loaded += request.loaded_tokens;
      refused += request.refused;
    }
    if (HasFailure()) return;
  }
  // Else this has tested little.
  EXPECT_GT(in_bulk, 10000);
  EXPECT_GT(preemptions, 1000);
  EXPECT_GT(loaded, 1000);
  EXPECT_GT(refused, 10);
}

// One request at a time: it makes no difference where its tokens are computed, if the way there costs nothing.
TEST(Simulator, DisaggregatedWithAFreeLinkIsAggregatedForLoneRequests) {
  Workload workload;
  for (int i = 0; i < 50; ++i) workload.requests.push_back({20.0 * i, 1 + 17 * i, 1 + 3 * (i % 20), 0, 0, 0});
  Cluster together;
  together.instance = small_instance();
  Cluster apart = together;
  apart.decode_instances = 1;
  apart.decode = small_instance();
  const auto a = simulate(together, workload), b = simulate(apart, workload);
  ASSERT_TRUE(a.has_value() && b.has_value());
  for (std::size_t i = 0; i < workload.requests.size(); ++i) {
    EXPECT_EQ(a->requests[i].first_s, b->requests[i].first_s);
    EXPECT_EQ(a->requests[i].last_s, b->requests[i].last_s);
  }
  EXPECT_EQ(a->itl_s.percentile(99), b->itl_s.percentile(99));
}

// By hand: steps of 3 ms and what the model adds; what arrives in a step enters the next.
TEST(Simulator, ArrivalsEnterBetweenSteps) {
  Workload workload;
  workload.requests = {{0, 10, 2, 0, 0, 0}, {0.001, 20, 1, 0, 0, 0}};
  Cluster cluster;
  cluster.instance = small_instance();
  const auto result = simulate(cluster, workload);
  ASSERT_TRUE(result.has_value());
  StepShape first, second;
  first.add(0, 10, true);
  second.add(10, 11, true);
  second.add(0, 20, true);
  const double one = kModel.step_s(first), two = one + kModel.step_s(second);
  EXPECT_EQ(result->requests[0].first_s, one);
  EXPECT_EQ(result->requests[0].last_s, two);
  EXPECT_EQ(result->requests[1].scheduled_s, one);
  EXPECT_EQ(result->requests[1].first_s, two);
  EXPECT_EQ(result->instances[0].steps, 2);
}

// A server that has work does not rest: all at once, the busy time is the time.
TEST(Simulator, ConservesWork) {
  Workload workload;
  for (int i = 0; i < 200; ++i) workload.requests.push_back({0, 50 + i, 20 + i % 7, 0, 0, 0});
  Cluster cluster;
  cluster.instance = small_instance();
  const auto result = simulate(cluster, workload);
  ASSERT_TRUE(result.has_value());
  EXPECT_NEAR(result->instances[0].busy_s, result->end_s, 1e-9);
}

TEST(Simulator, PrefixesAreFoundAndTheRouterFollowsThem) {
  Workload workload;
  workload.id_tokens = 32;
  for (std::uint32_t i = 0; i < 100; ++i) {
    workload.requests.push_back({0.2 * i, 200, 4, static_cast<std::uint32_t>(workload.ids.size()), 6, 0});
    for (std::uint64_t k = 0; k < 6; ++k) workload.ids.push_back(10 * (i % 3) + k);
  }
  Cluster cluster;
  cluster.instances = 3;
  cluster.instance = small_instance();
  const auto hits = [&](Routing routing) {
    cluster.routing = routing;
    const auto result = simulate(cluster, workload);
    std::int64_t cached = 0;
    for (const RequestResult& request : result->requests) cached += request.cached_tokens;
    return cached;
  };
  EXPECT_EQ(hits(Routing::kPrefixAware), 97 * 192) << "only the first of each text is computed";
  EXPECT_EQ(hits(Routing::kLeastLoaded), 97 * 192) << "idle instances take turns, and so do the texts";
}

TEST(Simulator, FetchesEvictedPrefixesWhereThatIsFaster) {
  Workload workload;
  workload.id_tokens = 16;
  for (std::uint32_t i = 0; i < 40; ++i) {  // 8 texts of 320 tokens in turns, in a pool of 1024
    workload.requests.push_back({1.0 * i, 330, 2, static_cast<std::uint32_t>(workload.ids.size()), 20, 0});
    for (std::uint64_t k = 0; k < 20; ++k) workload.ids.push_back(100 * (i % 8) + k);
  }
  Cluster cluster;
  cluster.instance = small_instance();
  cluster.kv_bytes_per_token = 1e5;
  const auto without = simulate(cluster, workload);
  cluster.tiers = {{"dram", 1e9, 1e11, 1e-5, false}};
  const auto fast = simulate(cluster, workload);
  cluster.tiers = {{"tape", 1e9, 1e6, 1e-5, false}};
  const auto slow = simulate(cluster, workload);
  EXPECT_EQ(without->requests[20].cached_tokens, 0) << "evicted";
  EXPECT_EQ(fast->requests[20].loaded_tokens, 320);
  EXPECT_LT(fast->requests[20].ttft_s(), 0.5 * without->requests[20].ttft_s());
  EXPECT_NEAR(fast->fetched_bytes, 32 * 320 * 1e5, 1);
  EXPECT_EQ(slow->fetched_bytes, 0) << "computing is faster";
  EXPECT_EQ(slow->requests[20].last_s, without->requests[20].last_s);
}

TEST(Simulator, RefusesWithTheNumbers) {
  Cluster cluster;
  cluster.instance = small_instance();
  Workload workload;
  workload.requests = {{0, 5000, 2, 0, 0, 0}};
  auto result = simulate(cluster, workload);
  ASSERT_FALSE(result.has_value());
  EXPECT_NE(result.error().message.find("5000"), std::string::npos) << result.error().message;
  workload.requests = {{1, 5, 2, 0, 0, 0}, {0, 5, 2, 0, 0, 0}};
  EXPECT_NE(simulate(cluster, workload).error().message.find("request 1: arrival_s"), std::string::npos);
  workload.requests = {{0, 5, 2, 0, 1, 0}};
  EXPECT_FALSE(simulate(cluster, workload).has_value());
  cluster.instance.num_blocks = 0;
  EXPECT_NE(simulate(cluster, workload).error().message.find("num_blocks"), std::string::npos);
}

}  // namespace
}  // namespace weir::plan::sim
