// Outlined texts, loaded KV and repeated steps: the scheduler plans for them as for the texts themselves.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>

#include "sched/scheduler.h"

namespace weir::sched {
namespace {

using Tokens = std::vector<TokenId>;

struct Shape {
  int block_tokens = 4, step_tokens = 8, max_seqs = 4;
  std::uint32_t blocks = 16;
  std::vector<int> windows = {0};
  Policy policy = Policy::kFcfs;
  bool caching = true;
  std::int64_t state_blocks = 0;
};

kv::KvConfig kv_config(const Shape& setup, int ids_per_block) {
  kv::KvConfig config;
  config.layout.block_tokens = setup.block_tokens;
  for (const int window : setup.windows) config.layout.groups.push_back({window, {}});
  config.layout.state_blocks = setup.state_blocks;
  config.num_blocks = setup.blocks;
  config.model_id = "outlined";
  config.ids_per_block = ids_per_block;
  return config;
}

SchedulerConfig scheduler_config(const Shape& setup) {
  SchedulerConfig config;
  config.max_num_seqs = setup.max_seqs;
  config.max_num_batched_tokens = setup.step_tokens;
  config.policy = setup.policy;
  config.enable_prefix_caching = setup.caching;
  return config;
}

// One id for each full block of a text, the same for the same block: what a block holds, in few bits.
Tokens outline_of(const Tokens& text, int block_tokens) {
  Tokens outline;
  for (std::size_t end = static_cast<std::size_t>(block_tokens); end <= text.size();
       end += static_cast<std::size_t>(block_tokens)) {
    std::uint64_t hash = 0;
    for (std::size_t i = end - static_cast<std::size_t>(block_tokens); i < end; ++i) {
      hash = (hash + static_cast<std::uint64_t>(text[i]) + 1) * 0x9E3779B97F4A7C15;
    }
    outline.push_back(static_cast<TokenId>(hash >> 33));
  }
  return outline;
}

struct Text {
  Tokens tokens;  // prompt and reply
  std::int64_t prompt = 0;
  std::int64_t reply() const { return static_cast<std::int64_t>(tokens.size()) - prompt; }
};

// The scheduler with its pool and the texts under way.
class Driver {
 public:
  Driver(const Shape& setup, bool outlined)
      : setup_(setup),
        outlined_(outlined),
        kv_(kv_config(setup, outlined ? 1 : 0)),
        scheduler_(scheduler_config(setup), kv_) {}

  void add(std::uint64_t id, const Text& text, int priority, double arrival_s, std::int64_t loaded = 0) {
    NewSequence fresh;
    fresh.id = SeqId{id};
    fresh.max_tokens = text.reply();
    fresh.priority = priority;
    fresh.arrival_s = arrival_s;
    fresh.loaded_tokens = loaded;
    if (outlined_) {
      fresh.prompt = outline_of(text.tokens, setup_.block_tokens);
      fresh.outlined_tokens = text.prompt;
    } else {
      fresh.prompt.assign(text.tokens.begin(), text.tokens.begin() + text.prompt);
    }
    texts_[id] = text;
    scheduler_.add(std::move(fresh));
  }

  const StepPlan& schedule() { return *(plan_ = &scheduler_.schedule(0)); }

  void finish_step() {
    Tokens sampled;
    std::vector<SeqId> done;
    for (const ScheduledRange& range : plan_->ranges) {
      const Text& text = texts_.at(value(range.id));
      if (range.samples && !outlined_) sampled.push_back(text.tokens[static_cast<std::size_t>(range.end)]);
      const bool read = text.reply() == 0 && range.end == text.prompt;
      if (read || (range.samples && range.end + 1 == static_cast<std::int64_t>(text.tokens.size())))
        done.push_back(range.id);
    }
    scheduler_.commit(*plan_, sampled);
    for (const SeqId id : done) {
      scheduler_.finish(id);
      texts_.erase(value(id));
    }
    kv_.check_integrity();
  }

  bool busy() const { return !texts_.empty(); }
  Scheduler& scheduler() { return scheduler_; }
  const kv::KvManager& kv() const { return kv_; }

 private:
  Shape setup_;
  bool outlined_;
  kv::KvManager kv_;
  Scheduler scheduler_;
  std::map<std::uint64_t, Text> texts_;
  const StepPlan* plan_ = nullptr;
};

void expect_equal(const StepPlan& a, const StepPlan& b) {
  ASSERT_EQ(a.ranges.size(), b.ranges.size());
  for (std::size_t i = 0; i < a.ranges.size(); ++i) {
    ASSERT_EQ(a.ranges[i].id, b.ranges[i].id);
    ASSERT_EQ(a.ranges[i].begin, b.ranges[i].begin);
    ASSERT_EQ(a.ranges[i].end, b.ranges[i].end);
    ASSERT_EQ(a.ranges[i].samples, b.ranges[i].samples);
  }
  ASSERT_EQ(a.preempted, b.preempted);
  ASSERT_EQ(a.admitted, b.admitted);
}

class Lockstep {
 public:
  explicit Lockstep(std::uint32_t seed)
      : random_(seed), setup_(draw_setup()), text_(setup_, false), outline_(setup_, true) {}

  void run() {
    for (int step = 0; (step < 200 || text_.busy()) && !testing::Test::HasFailure(); ++step) {
      if (step < 200 && below(3) == 0) add();
      if (!text_.busy()) continue;
      expect_equal(text_.schedule(), outline_.schedule());
      // Some stretches in one go; the text takes every step.
      const std::int64_t most = outline_.scheduler().repetitions();
      const std::int64_t pass =
          most > 0 && below(2) == 0 ? 1 + static_cast<std::int64_t>(below(static_cast<std::size_t>(most))) : 0;
      outline_.scheduler().repeat(pass);
      for (std::int64_t i = 0; i < pass; ++i) {
        text_.finish_step();
        const StepPlan& plan = text_.schedule();
        ASSERT_TRUE(plan.preempted.empty() && plan.admitted.empty());
      }
      repeated += pass;
      text_.finish_step();
      outline_.finish_step();
      const kv::KvStats a = text_.kv().stats(), b = outline_.kv().stats();
      ASSERT_EQ(a.in_use, b.in_use);
      ASSERT_EQ(a.idle, b.idle);
    }
    const SchedulerStats a = text_.scheduler().stats(), b = outline_.scheduler().stats();
    EXPECT_EQ(a.prefix_hits_tokens, b.prefix_hits_tokens);
    EXPECT_EQ(a.preemptions, b.preemptions);
    hits += a.prefix_hits_tokens;
    preemptions += a.preemptions;
  }

  static inline std::int64_t repeated = 0;
  static inline std::uint64_t hits = 0, preemptions = 0;

 private:
  std::size_t below(std::size_t n) { return random_() % n; }

  Shape draw_setup() {
    Shape setup;
    setup.block_tokens = static_cast<int>(1 + below(8));
    setup.step_tokens = static_cast<int>(1 + below(20));
    setup.max_seqs = static_cast<int>(1 + below(5));
    setup.blocks = static_cast<std::uint32_t>(12 + below(40));
    if (below(5) == 0) setup.windows = {0, 6};
    if (below(3) == 0) setup.policy = Policy::kPriority;
    setup.caching = below(4) != 0;
    if (below(4) == 0) setup.state_blocks = static_cast<std::int64_t>(1 + below(3));
    return setup;
  }

  void add() {
    Text text;
    if (!shared_.empty() && below(3) != 0)
      text.tokens.assign(shared_.begin(), shared_.begin() + static_cast<std::ptrdiff_t>(below(shared_.size() + 1)));
    const std::size_t own = 1 + below(12);
    for (std::size_t i = 0; i < own; ++i) text.tokens.push_back(static_cast<TokenId>(below(3)));
    text.prompt = static_cast<std::int64_t>(text.tokens.size());
    const std::size_t reply = below(40);
    for (std::size_t i = 0; i < reply; ++i) text.tokens.push_back(static_cast<TokenId>(below(3)));
    if (!text_.scheduler().check_fits(text.prompt, text.reply())) return;
    const int priority = static_cast<int>(below(3));
    text_.add(next_, text, priority, static_cast<double>(next_));
    outline_.add(next_, text, priority, static_cast<double>(next_));
    ++next_;
    if (text.tokens.size() < 60) shared_ = text.tokens;
  }

  std::mt19937 random_;
  Shape setup_;
  Driver text_, outline_;
  Tokens shared_;
  std::uint64_t next_ = 0;
};

TEST(Outline, IsPlannedAsTheTextIsAndStretchesOfItAtOnce) {
  for (std::uint32_t seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Lockstep(seed).run();
    if (HasFailure()) return;
  }
  EXPECT_GT(Lockstep::repeated, 10000);
  EXPECT_GT(Lockstep::hits, 10000u);
  EXPECT_GT(Lockstep::preemptions, 500u);
}

TEST(Loaded, IsThereAtAdmissionAndFoundByOthers) {
  Shape setup;
  Driver driver(setup, false);
  Text text;
  for (int i = 0; i < 30; ++i) text.tokens.push_back(i);
  text.prompt = 25;
  driver.add(1, text, 0, 0, 24);
  const StepPlan& plan = driver.schedule();
  ASSERT_EQ(plan.ranges.size(), 1u);
  EXPECT_EQ(plan.ranges[0].begin, 24);
  EXPECT_EQ(plan.ranges[0].end, 25);
  EXPECT_TRUE(plan.ranges[0].samples);
  EXPECT_EQ(driver.scheduler().cached_tokens(SeqId{1}), 0) << "not from this cache";
  EXPECT_EQ(driver.kv().stats().in_use, 7u);
  driver.finish_step();
  driver.add(2, text, 0, 1);
  for (const ScheduledRange& range : driver.schedule().ranges) {
    if (range.id == SeqId{2}) {
      EXPECT_EQ(range.begin, 24);
    }
  }
  driver.finish_step();
}

TEST(Loaded, LeavesOneTokenToCompute) {
  Driver driver({.windows = {0, 6}}, false);
  Text text;
  for (int i = 0; i < 20; ++i) text.tokens.push_back(i);
  text.prompt = 17;
  driver.add(1, text, 0, 0, 1000);
  const StepPlan& plan = driver.schedule();
  ASSERT_EQ(plan.ranges.size(), 1u);
  EXPECT_EQ(plan.ranges[0].begin, 16);
  while (true) {
    driver.finish_step();
    if (!driver.busy()) break;
    driver.schedule();
  }
  EXPECT_EQ(driver.kv().stats().in_use, 0u);
}

TEST(Repeat, RefusesMoreThanWouldBeTheSame) {
  Driver driver({.max_seqs = 1}, true);
  Text text;
  text.tokens.assign(20, 1);
  text.prompt = 4;
  driver.add(1, text, 0, 0);
  driver.schedule();
  EXPECT_EQ(driver.scheduler().repetitions(), 0) << "the prompt is read";
  driver.finish_step();
  driver.schedule();
  EXPECT_EQ(driver.scheduler().repetitions(), 3) << "then the second block is full";
  EXPECT_DEATH(driver.scheduler().repeat(4), "repetitions");
}

}  // namespace
}  // namespace weir::sched
