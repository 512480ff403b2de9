#include "sched/scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>

namespace weir::sched {
namespace {

// A scheduler with a pool, driven by hand: a table of who computes what in which step.
//   P8  8 tokens of the prompt       D  the next token of the reply       R8  8 tokens again, after a preemption
//   C4+ as P, R: 4 tokens of the prefix were cached, noted at admission     .  waits     x  preempted in this step -
//   gone
class Scenario {
 public:
  struct Options {
    int block_tokens = 4;
    std::uint32_t pool_blocks = 8;
    int step_tokens = 8;
    int max_seqs = 8;
    std::vector<int> windows = {0};
    Policy policy = Policy::kFcfs;
    bool caching = false;
    std::int64_t state_blocks = 0;
  };

  explicit Scenario(const Options& options) : kv_(kv_config(options)), scheduler_(scheduler_config(options), kv_) {}

  struct Submit {
    int prompt = 1, max_tokens = 4, priority = 0;
    double arrival_s = -1.0;  // of an earlier time than the call; else in order of the calls
    int first_token = -1;     // prompts that begin with the same token begin with the same text
  };
  Scenario& submit(const std::string& name, const Submit& s) {
    const SeqId id{names_.size()};
    names_.push_back(name);
    rows_.emplace_back(static_cast<std::size_t>(step_), " ");
    limits_.push_back(s);
    if (!scheduler_.check_fits(s.prompt, s.max_tokens)) {
      rows_.back() = {"refused"};
      return *this;
    }
    NewSequence sequence;
    sequence.id = id;
    const int first = s.first_token >= 0 ? s.first_token : 1000 * static_cast<int>(names_.size());
    for (int i = 0; i < s.prompt; ++i) sequence.prompt.push_back(first + i);
    sequence.max_tokens = s.max_tokens;
    sequence.priority = s.priority;
    sequence.arrival_s = s.arrival_s >= 0.0 ? s.arrival_s : static_cast<double>(names_.size());
    scheduler_.add(std::move(sequence));
    return *this;
  }

  Scenario& cancel(const std::string& name) {
    for (std::size_t i = 0; i < names_.size(); ++i) {
      if (names_[i] == name) scheduler_.finish(SeqId{i});
    }
    kv_.check_integrity();
    return *this;
  }

  Scenario& run(int steps) {
    for (int i = 0; i < steps; ++i, ++step_) step();
    return *this;
  }

  std::string timeline() const {
    std::string text;
    for (std::size_t i = 0; i < names_.size(); ++i) {
      text += (i ? " | " : "") + names_[i] + ":";
      for (const std::string& cell : rows_[i]) text += " " + cell;
    }
    return text;
  }

  Scheduler& scheduler() { return scheduler_; }
  kv::KvManager& kv() { return kv_; }

 private:
  static kv::KvConfig kv_config(const Options& options) {
    kv::KvConfig config;
    config.layout.block_tokens = options.block_tokens;
    for (const int window : options.windows) config.layout.groups.push_back({window, {}});
    config.layout.state_blocks = options.state_blocks;
    config.num_blocks = options.pool_blocks;
    return config;
  }
  static SchedulerConfig scheduler_config(const Options& options) {
    return {.max_num_seqs = options.max_seqs,
            .max_num_batched_tokens = options.step_tokens,
            .max_model_len = 1000,
            .policy = options.policy,
            .enable_prefix_caching = options.caching};
  }

  void step() {
    const StepPlan& plan = scheduler_.schedule(step_);
    kv_.check_integrity();
    std::map<SeqId, std::string> cells;
    std::vector<TokenId> sampled;
    for (const SeqId id : plan.preempted) {
      cells[id] = "x";
      preempted_[id] = true;
    }
    for (const ScheduledRange& range : plan.ranges) {
      const Submit& limits = limits_[value(range.id)];
      const auto count = range.end - range.begin;
      std::string cell =
          count == 1 && range.begin >= limits.prompt && !preempted_[range.id] ? "D" : "P" + std::to_string(count);
      if (preempted_[range.id]) cell = "R" + std::to_string(count);
      const bool admitted = std::find(plan.admitted.begin(), plan.admitted.end(), range.id) != plan.admitted.end();
      if (admitted && range.begin > 0) cell = "C" + std::to_string(range.begin) + "+" + cell;
      if (range.samples) {
        sampled.push_back(7);
        preempted_[range.id] = false;  // it has caught up
      }
      cells[range.id] = cell;
    }
    scheduler_.commit(plan, sampled);
    for (std::size_t i = 0; i < names_.size(); ++i) {
      const SeqId id{i};
      if (rows_[i] == std::vector<std::string>{"refused"}) continue;
      if (!scheduler_.contains(id)) {
        rows_[i].push_back("-");
        continue;
      }
      rows_[i].push_back(cells.contains(id) ? cells[id] : ".");
      const auto known = static_cast<std::int64_t>(scheduler_.tokens(id).size());
      if (known - limits_[i].prompt == limits_[i].max_tokens && scheduler_.computed_tokens(id) >= limits_[i].prompt) {
        scheduler_.finish(id);
      }
    }
    kv_.check_integrity();
  }

  kv::KvManager kv_;
  Scheduler scheduler_;
  std::vector<std::string> names_;
  std::vector<Submit> limits_;
  std::vector<std::vector<std::string>> rows_;
  std::map<SeqId, bool> preempted_;
  int step_ = 0;
};

TEST(Scheduler, SharesTheStepBetweenPrefillAndDecode) {
  // step     0     1     2     3          (the last chunk of a prompt already yields the first token)
  // A(9)     P8    P1    D     D
  // B(6)     .     P6    D     D          joins as soon as A's prompt leaves it budget: 1 + 6 <= 8
  // C(36)    refused at submit: 36 + 4 tokens need 10 blocks, the pool has 8
  Scenario s({});
  s.submit("A", {.prompt = 9}).submit("B", {.prompt = 6}).submit("C", {.prompt = 36}).run(4);
  EXPECT_EQ(s.timeline(), "A: P8 P1 D D | B: . P6 D D | C: refused");
}

TEST(Scheduler, ChunksAPromptToTheBudget) {
  Scenario s({.step_tokens = 4});
  s.submit("A", {.prompt = 2, .max_tokens = 6}).run(1).submit("B", {.prompt = 7}).run(4);
  EXPECT_EQ(s.timeline(), "A: P2 D D D D | B:   P3 P3 P1 D");
}

TEST(Scheduler, ABudgetOfOneTokenGoesRoundInOrder) {
  Scenario s({.step_tokens = 1});
  s.submit("A", {.prompt = 2, .max_tokens = 2}).submit("B", {.prompt = 1, .max_tokens = 1}).run(5);
  EXPECT_EQ(s.timeline(), "A: P1 P1 D - - | B: . . . P1 -") << "who runs first is served first";
}

TEST(Scheduler, SlotsAreLimited) {
  Scenario s({.max_seqs = 1});
  s.submit("A", {.prompt = 2, .max_tokens = 2}).submit("B", {.prompt = 2, .max_tokens = 1}).run(4);
  EXPECT_EQ(s.timeline(), "A: P2 D - - | B: . . P2 -");
}

TEST(Scheduler, PreemptsTheLatestAndResumesItFirst) {
  // 4 blocks of 2 tokens. A and B fill the pool; at step 2 A needs a third block and B gives way. C fits, but may not
  // overtake B.
  Scenario s({.block_tokens = 2, .pool_blocks = 4});
  s.submit("A", {.prompt = 3, .max_tokens = 4}).submit("B", {.prompt = 3, .max_tokens = 3});
  s.run(2).submit("C", {.prompt = 1, .max_tokens = 1}).run(6);
  EXPECT_EQ(s.timeline(), "A: P3 D D D - - - - | B: P3 D x . R5 - - - | C:     . . P1 - - -");
  EXPECT_EQ(s.scheduler().stats().preemptions, 1u);
  EXPECT_EQ(s.kv().stats().free, 4u);
}

TEST(Scheduler, APreemptedSequenceComesEvenBeforeOlderOnes) {
  // C was sent before B but comes in late (another thread's mailbox): B, whose reply has begun, still goes first.
  Scenario s({.block_tokens = 2, .pool_blocks = 4});
  s.submit("A", {.prompt = 3, .max_tokens = 4}).submit("B", {.prompt = 3, .max_tokens = 3});
  s.run(3).submit("C", {.prompt = 3, .max_tokens = 1, .arrival_s = 0.0}).run(4);
  EXPECT_EQ(s.timeline(), "A: P3 D D D - - - | B: P3 D x . R5 - - | C:       . . P3 -");
}

TEST(Scheduler, TheLatestGivesWayItself) {
  // At step 2 A takes the last block it needs; B needs one too and is the latest.
  Scenario s({.block_tokens = 2, .pool_blocks = 5});
  s.submit("A", {.prompt = 3, .max_tokens = 4}).submit("B", {.prompt = 3, .max_tokens = 3}).run(6);
  EXPECT_EQ(s.timeline(), "A: P3 D D D - - | B: P3 D x . R5 -");
}

TEST(Scheduler, ThePrefixCacheShortensThePrompt) {
  Scenario s({.caching = true});
  s.submit("A", {.prompt = 8, .max_tokens = 1, .first_token = 5}).run(1);
  s.submit("B", {.prompt = 10, .max_tokens = 1, .first_token = 5}).run(1);
  EXPECT_EQ(s.timeline(), "A: P8 - | B:   C8+P2");
  EXPECT_EQ(s.scheduler().stats().prefix_queries_tokens, 18u);
  EXPECT_EQ(s.scheduler().stats().prefix_hits_tokens, 8u);
}

TEST(Scheduler, StepsEndWhereARecurrentStateIsKept) {
  Scenario s({.pool_blocks = 20, .caching = true, .state_blocks = 2});
  s.submit("A", {.prompt = 14, .max_tokens = 1, .first_token = 5}).run(3);
  s.submit("B", {.prompt = 14, .max_tokens = 1, .first_token = 5}).run(1);
  EXPECT_EQ(s.timeline(), "A: P8 P4 P2 - | B:       C12+P2");
  // One step where nothing is kept.
  Scenario without({.pool_blocks = 20, .step_tokens = 16, .state_blocks = 2});
  EXPECT_EQ(without.submit("A", {.prompt = 14, .max_tokens = 1}).run(1).timeline(), "A: P14");
}

TEST(Scheduler, AResumedSequenceFindsItsOwnBlocksAndIsNotCountedTwice) {
  Scenario s({.block_tokens = 2, .pool_blocks = 5, .caching = true});
  s.submit("A", {.prompt = 3, .max_tokens = 4}).submit("B", {.prompt = 3, .max_tokens = 3}).run(5);
  EXPECT_EQ(s.timeline(), "A: P3 D D D - | B: P3 D x . C4+R1");
  EXPECT_EQ(s.scheduler().stats().prefix_queries_tokens, 6u);
  EXPECT_EQ(s.scheduler().stats().prefix_hits_tokens, 0u);
}

TEST(Scheduler, IdleHitBlocksAreNotCountedTwice) {
  // 4 blocks of 2. A leaves 2 idle blocks of its 4 tokens. B holds 1 for long. C shares A's text and needs 4 blocks:
  // its 2 idle ones and 2 more of the 1 that is left. It must wait for B, however much "available" and "hit" look like
  // enough.
  Scenario s({.block_tokens = 2, .pool_blocks = 4, .caching = true});
  s.submit("A", {.prompt = 4, .max_tokens = 1, .first_token = 5}).run(1);
  s.submit("B", {.prompt = 1, .max_tokens = 2}).submit("C", {.prompt = 7, .max_tokens = 1, .first_token = 5}).run(3);
  EXPECT_EQ(s.timeline(), "A: P4 - - - | B:   P1 D - | C:   . . C4+P3");
}

TEST(Scheduler, SharedBlocksMakeRoomForMore) {
  // 5 blocks of 2. A holds 3; B shares 2 of them and needs 4 blocks in all: 2 are in use anyway, 2 are available.
  Scenario s({.block_tokens = 2, .pool_blocks = 5, .caching = true});
  s.submit("A", {.prompt = 5, .max_tokens = 2, .first_token = 5}).run(1);
  s.submit("B", {.prompt = 8, .max_tokens = 1, .first_token = 5}).run(1);
  EXPECT_EQ(s.timeline(), "A: P5 D | B:   C4+P4");
}

TEST(Scheduler, PriorityDecidesWhoWaitsAndWhoGivesWay) {
  const Scenario::Options options{.block_tokens = 2, .pool_blocks = 4, .max_seqs = 2, .policy = Policy::kPriority};
  Scenario waits(options);
  waits.submit("A", {.prompt = 2, .max_tokens = 1, .priority = 5})
      .submit("B", {.prompt = 2, .max_tokens = 1, .priority = 5});
  waits.submit("C", {.prompt = 2, .max_tokens = 1, .priority = 1}).run(2);
  EXPECT_EQ(waits.timeline(), "A: P2 - | B: . P2 | C: P2 -");

  // A is first in order and asks first, but is the least urgent: it gives way and B goes on in the same step.
  Scenario gives_way(options);
  gives_way.submit("A", {.prompt = 3, .max_tokens = 3, .priority = 5}).run(1);
  gives_way.submit("B", {.prompt = 4, .max_tokens = 4, .priority = 1}).run(6);
  EXPECT_EQ(gives_way.timeline(), "A: P3 D x . . R5 - | B:   P4 D D D - -");

  // B's range is already planned when the more urgent C needs its blocks: the plan takes it back.
  Scenario takes_back({.block_tokens = 1, .pool_blocks = 5, .max_seqs = 2, .policy = Policy::kPriority});
  takes_back.submit("B", {.prompt = 2, .max_tokens = 3, .priority = 5}).run(1);
  takes_back.submit("C", {.prompt = 2, .max_tokens = 3, .priority = 1}).run(4);
  EXPECT_EQ(takes_back.timeline(), "B: P2 D x . R4 | C:   P2 D D -");
}

TEST(Scheduler, CancelsInEveryState) {
  Scenario s({.block_tokens = 2, .pool_blocks = 4, .step_tokens = 3});
  s.submit("A", {.prompt = 3, .max_tokens = 5}).submit("B", {.prompt = 3, .max_tokens = 3}).run(1);
  s.submit("C", {.prompt = 3}).cancel("C");  // never admitted
  s.run(3);                                  // B is preempted meanwhile
  EXPECT_EQ(s.scheduler().stats().preemptions, 1u);
  s.cancel("B").cancel("A");  // preempted; running
  EXPECT_EQ(s.kv().stats().free, 4u);
  EXPECT_EQ(s.scheduler().stats().running + s.scheduler().stats().waiting, 0);
  EXPECT_TRUE(s.scheduler().schedule(0).empty());
  s.submit("D", {.prompt = 5, .max_tokens = 1}).run(1);  // half a prompt
  s.cancel("D");
  EXPECT_EQ(s.kv().stats().free, 4u);
}

TEST(Scheduler, APromptAloneIsComputedAndNotSampled) {
  Scenario s({.step_tokens = 4});
  s.submit("A", {.prompt = 6, .max_tokens = 0}).run(3);
  EXPECT_EQ(s.timeline(), "A: P4 P2 -");
}

TEST(Scheduler, WindowsLetLongTextThroughASmallPool) {
  // A window of 4 in blocks of 2 never holds more than 3 blocks with steps of one token; a step of 8 must be cut, not
  // refused.
  Scenario s({.block_tokens = 2, .pool_blocks = 3, .step_tokens = 8, .windows = {4}});
  s.submit("A", {.prompt = 14, .max_tokens = 30}).run(40);
  EXPECT_EQ(s.timeline().substr(0, 17), "A: P6 P2 P2 P2 P2");
  EXPECT_EQ(s.kv().stats().free, 3u);
}

TEST(Scheduler, BesideOthersAWindowedSequenceWaitsForRoomForFullSteps) {
  Scenario s({.block_tokens = 2, .pool_blocks = 4, .step_tokens = 6, .windows = {4}});
  s.submit("A", {.prompt = 2, .max_tokens = 2}).submit("B", {.prompt = 20, .max_tokens = 1}).run(3);
  EXPECT_EQ(s.timeline(), "A: P2 D - | B: . . P6") << "nothing is gained by crawling beside A";
}

TEST(Scheduler, RefusesWhatCanNeverRunWithBothNumbers) {
  Scenario s({.block_tokens = 16, .pool_blocks = 4});
  const auto refusal = [&s](std::int64_t prompt, std::int64_t max_tokens) {
    const Status status = s.scheduler().check_fits(prompt, max_tokens);
    return status ? std::string("ok") : status.error().message;
  };
  EXPECT_EQ(refusal(60, 4), "ok");
  EXPECT_NE(refusal(60, 5).find("5 KV blocks of 16 tokens, the server has 4"), std::string::npos) << refusal(60, 5);
  EXPECT_NE(refusal(60, 5).find("--num-kv-blocks"), std::string::npos);
  EXPECT_NE(refusal(1001, 1).find("1001 tokens; the model reads 1000 (--max-model-len)"), std::string::npos)
      << refusal(1001, 1);
  EXPECT_NE(refusal(900, 101).find("at most 100 tokens"), std::string::npos) << refusal(900, 101);
  EXPECT_EQ(s.scheduler().check_fits(1001, 1).error().code, ErrorCode::kContextLengthExceeded);
  EXPECT_EQ(s.scheduler().check_fits(1, std::numeric_limits<std::int64_t>::max()).error().code,
            ErrorCode::kContextLengthExceeded);
  EXPECT_EQ(s.scheduler().check_fits(0, 1).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(s.scheduler().check_fits(1, -1).error().code, ErrorCode::kInvalidArgument);
}

TEST(Scheduler, WithoutALengthOnlyThePoolLimits) {
  kv::KvConfig config;
  config.layout.block_tokens = 4;
  config.layout.groups.push_back({8, {}});
  config.num_blocks = 3;
  kv::KvManager kv(std::move(config));
  const Scheduler scheduler({}, kv);
  EXPECT_TRUE(scheduler.check_fits(1'000'000, 1).has_value()) << "a window recycles its blocks";
  EXPECT_FALSE(scheduler.check_fits(1, std::numeric_limits<std::int64_t>::max()).has_value()) << "no overflow";
}

// LongRoPE: a sequence that outgrows `long_from` is computed anew, and shares no blocks with what it was before.
TEST(Scheduler, ASequenceThatBecomesLongIsComputedAnew) {
  kv::KvConfig config;
  config.layout.block_tokens = 2;
  config.layout.groups.push_back({0, {}});
  config.num_blocks = 32;
  config.prefix_index = kv::PrefixIndexKind::kHash;
  kv::KvManager kv(std::move(config));
  Scheduler scheduler({.long_from = 6}, kv);
  const auto run = [&](std::uint64_t id, std::vector<TokenId> prompt, std::int64_t tokens) {
    std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
    scheduler.add({.id = SeqId{id}, .prompt = std::move(prompt), .max_tokens = tokens, .cache_salt = ""});
    for (std::int64_t i = 0; i < tokens; ++i) {
      const StepPlan& plan = scheduler.schedule(0);
      EXPECT_EQ(plan.ranges.size(), 1u);
      ranges.emplace_back(plan.ranges.at(0).begin, plan.ranges.at(0).end);
      EXPECT_TRUE(plan.ranges.at(0).samples && plan.preempted.empty());
      scheduler.commit(plan, std::vector<TokenId>{static_cast<TokenId>(100 + i)});
      kv.check_integrity();
    }
    scheduler.finish(SeqId{id});
    return ranges;
  };
  using Ranges = std::vector<std::pair<std::int64_t, std::int64_t>>;
  EXPECT_EQ(run(1, {1, 2, 3, 4, 5}, 4), (Ranges{{0, 5}, {5, 6}, {0, 7}, {7, 8}}));
  EXPECT_EQ(run(2, {1, 2, 3, 4, 5}, 1), (Ranges{{4, 5}})) << "short ones share with short ones";
  EXPECT_EQ(run(3, {1, 2, 3, 4, 5, 100, 101}, 1), (Ranges{{6, 7}})) << "long ones with long ones";
  EXPECT_EQ(run(4, {1, 2, 3, 4, 9, 9, 9}, 1), (Ranges{{4, 7}}));
  EXPECT_EQ(run(5, {1, 2, 3, 4, 5, 100}, 2), (Ranges{{4, 6}, {6, 7}})) << "what it computed as a short one is dropped";
  EXPECT_EQ(scheduler.stats().preemptions, 0u);
}

TEST(SchedulingPolicyFlag, Parses) {
  EXPECT_EQ(parse_policy("fcfs").value(), Policy::kFcfs);
  EXPECT_EQ(parse_policy("priority").value(), Policy::kPriority);
  EXPECT_NE(parse_policy("lottery").error().message.find("fcfs or priority"), std::string::npos);
}

TEST(SchedulerDeathTest, MisuseIsABug) {
  kv::KvConfig config;
  config.layout.groups.push_back({0, {}});
  config.num_blocks = 4;
  kv::KvManager kv(std::move(config));
  Scheduler scheduler({}, kv);
  scheduler.add({.id = SeqId{1}, .prompt = {1, 2}, .max_tokens = 1, .cache_salt = ""});
  const StepPlan& plan = scheduler.schedule(0);
  EXPECT_DEATH(scheduler.schedule(0), "not been committed");
  EXPECT_DEATH(scheduler.finish(SeqId{1}), "middle of a step");
  EXPECT_DEATH(scheduler.commit(plan, {}), "tokens");
  scheduler.commit(plan, std::vector<TokenId>{5});
  EXPECT_DEATH(scheduler.schedule(0), "was not finished");
  EXPECT_DEATH(scheduler.finish(SeqId{2}), "is not here");
}

// A step ahead of its tokens, as the planner drives it for vLLM's asynchronous scheduling: "a" has all its tokens when
// the plan that gives it the last one is committed, and is finished one plan later.
TEST(Scheduler, ALateFinishKeepsSlotAndBlocksForOnePlan) {
  kv::KvConfig kv_config;
  kv_config.layout.block_tokens = 4;
  kv_config.layout.groups.push_back({});
  kv_config.num_blocks = 4;
  kv::KvManager kv(kv_config);
  SchedulerConfig config;
  config.max_num_seqs = 1;
  config.enable_prefix_caching = false;
  config.late_finish = true;
  Scheduler scheduler(config, kv);
  for (const std::uint64_t id : {0, 1}) {
    NewSequence sequence;
    sequence.id = SeqId{id};
    sequence.prompt = {1, 2, 3};
    sequence.max_tokens = 1;
    scheduler.add(std::move(sequence));
  }
  const TokenId token = 7;
  const StepPlan& first = scheduler.schedule(0);
  ASSERT_EQ(first.ranges.size(), 1u);
  EXPECT_EQ(first.ranges[0].id, SeqId{0});
  scheduler.commit(first, {&token, 1});
  const StepPlan& ahead = scheduler.schedule(0);  // 0 still has its slot
  EXPECT_TRUE(ahead.empty());
  EXPECT_TRUE(ahead.admitted.empty());
  EXPECT_EQ(scheduler.stats().running, 1);
  EXPECT_EQ(kv.available(), 3u);
  scheduler.finish(SeqId{0});
  const StepPlan& next = scheduler.schedule(0);
  ASSERT_EQ(next.ranges.size(), 1u);
  EXPECT_EQ(next.ranges[0].id, SeqId{1});
  scheduler.commit(next, {&token, 1});
  scheduler.finish(SeqId{1});
  EXPECT_EQ(kv.available(), 4u);
  kv.check_integrity();
}

// The one with all its tokens is the latest admitted when blocks lack: it gives them up, is not admitted again and
// leaves by finish().
TEST(Scheduler, AFinishedSequenceThatIsPreemptedDoesNotComeBack) {
  kv::KvConfig kv_config;
  kv_config.layout.block_tokens = 4;
  kv_config.layout.groups.push_back({});
  kv_config.num_blocks = 2;
  kv::KvManager kv(kv_config);
  SchedulerConfig config;
  config.enable_prefix_caching = false;
  config.late_finish = true;
  Scheduler scheduler(config, kv);
  for (const std::uint64_t id : {0, 1}) {
    NewSequence sequence;
    sequence.id = SeqId{id};
    sequence.prompt = id == 0 ? std::vector<TokenId>{1, 2, 3, 4} : std::vector<TokenId>{5};
    sequence.max_tokens = id == 0 ? 2 : 1;
    scheduler.add(std::move(sequence));
  }
  const std::vector<TokenId> tokens = {7, 8};
  const StepPlan& both = scheduler.schedule(0);
  ASSERT_EQ(both.ranges.size(), 2u);
  scheduler.commit(both, tokens);
  const StepPlan& ahead = scheduler.schedule(0);  // 0 needs a second block; 1 has all its tokens
  ASSERT_EQ(ahead.preempted, std::vector<SeqId>{SeqId{1}});
  ASSERT_EQ(ahead.ranges.size(), 1u);
  scheduler.commit(ahead, {tokens.data(), 1});
  EXPECT_TRUE(scheduler.schedule(0).empty());
  scheduler.finish(SeqId{1});
  scheduler.finish(SeqId{0});
  EXPECT_TRUE(scheduler.schedule(0).empty());
  EXPECT_EQ(kv.available(), 2u);
}

}  // namespace
}  // namespace weir::sched
