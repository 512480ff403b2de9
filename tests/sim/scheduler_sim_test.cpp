// Millions of steps of the real scheduler and KV manager with a fake model, on pools so small that everything goes
// wrong that can.
//
// The fake model keeps a fake KV cache: each slot holds a hash of all that a real one would depend on (the tokens up to
// it, the group), and a step's "attention" reads, through the block tables, every slot a real one would read. What is
// checked:
//   * every slot read holds the text of its own sequence, every slot written was nobody's (wrong reuse, aliasing, early
//   freeing);
//   * every sequence's reply equals the one it gets alone, whatever was batched, cut, preempted, cached or cancelled
//   around it;
//   * the budget, the slots and the order of admission are kept; every step computes something; nobody starves; nothing
//   leaks;
//   * the same events give the same plans.
//
// WEIR_SIM_STEPS and WEIR_SIM_SEED change how long and what. A failure prints the episode's seed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <random>

#include "kv/kv_manager.h"
#include "sched/scheduler.h"

namespace weir::sched {
namespace {

using Tokens = std::vector<TokenId>;

constexpr std::uint64_t kPoison = 0;

std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  std::uint64_t x = (a ^ (b + 0x9E3779B97F4A7C15)) * 0xBF58476D1CE4E5B9;
  x ^= x >> 29;
  x *= 0x94D049BB133111EB;
  return (x ^ (x >> 32)) | 1;  // never kPoison
}

// What a slot holds, and what the model makes of the last one. `context` is a hash of all tokens up to it.
std::uint64_t slot_content(std::uint64_t context, std::size_t group) {
  return mix(context, group);
}
TokenId next_token(std::uint64_t read_from_all_groups) {
  return static_cast<TokenId>(read_from_all_groups >> 40) % 3;
}

struct Live {
  Tokens tokens;
  std::vector<std::uint64_t> context;  // by position
  std::int64_t prompt_tokens = 0, max_tokens = 0;
  std::int64_t steps_allowed = 0;  // 0: no bound is known
  std::int64_t steps = 0;
  bool admitted = false;

  void push(TokenId token) {
    tokens.push_back(token);
    context.push_back(mix(context.empty() ? 0 : context.back(), static_cast<std::uint64_t>(token)));
  }
  std::int64_t known() const { return static_cast<std::int64_t>(tokens.size()); }
};

struct Totals {
  std::uint64_t steps = 0, tokens = 0, finished = 0, cancelled = 0, refused = 0, preemptions = 0, hits = 0;
};

class Episode {
 public:
  explicit Episode(std::uint32_t seed) : random_(seed) {
    static constexpr int kBlockTokens[] = {1, 2, 3, 4, 8, 16};
    static const std::vector<std::vector<int>> kWindows = {{0}, {0}, {0, 3}, {5}, {0, 4, 4}, {1, 9}, {0, 0}, {24, 0}};
    static constexpr int kBudgets[] = {1, 2, 3, 7, 16, 64};
    kv::KvConfig config;
    config.layout.block_tokens = pick(kBlockTokens);
    for (const int window : kWindows[below(kWindows.size())]) config.layout.groups.push_back({window, {}});
    config.num_blocks = static_cast<std::uint32_t>(1 + below(chance(4) ? 48 : 8));
    config.model_id = "fake";
    config.on_discard = [this](BlockId block) {
      std::fill_n(slots_.begin() + value(block) * layout_.block_tokens, layout_.block_tokens, kPoison);
    };
    limits_.max_num_seqs = static_cast<int>(1 + below(8));
    limits_.max_num_batched_tokens = pick(kBudgets);
    limits_.policy = chance(3) ? Policy::kPriority : Policy::kFcfs;
    limits_.enable_prefix_caching = !chance(5);
    if (!limits_.enable_prefix_caching && chance(2)) config.prefix_index = kv::PrefixIndexKind::kNone;
    layout_ = config.layout;
    slots_.resize(config.num_blocks * static_cast<std::size_t>(layout_.block_tokens), kPoison);
    kv_ = std::make_unique<kv::KvManager>(std::move(config));
    scheduler_ = std::make_unique<Scheduler>(limits_, *kv_);
    arrivals_ = 1 + below(3);
  }

  // Returns a hash of all plans.
  std::uint64_t run(int busy_steps, Totals& totals) {
    for (int step = 0; step < busy_steps && ok(); ++step) {
      if (below(4) < arrivals_ && live_.size() < 24) submit();
      if (chance(24)) cancel();
      if (chance(200)) kv_->clear_cache();
      this->step();
    }
    // Whatever is left must end by itself.
    std::int64_t left = 0;
    for (const auto& [id, s] : live_) left += s.prompt_tokens + s.max_tokens;
    for (std::int64_t bound = (left + 1) * static_cast<std::int64_t>(live_.size() + 1); !live_.empty() && ok();
         --bound) {
      if (bound == 0) ADD_FAILURE() << live_.size() << " sequences do not end";
      this->step();
    }
    if (ok()) check_idle();
    totals_.preemptions = scheduler_->stats().preemptions;
    totals_.hits = scheduler_->stats().prefix_hits_tokens;
    totals.steps += totals_.steps;
    totals.tokens += totals_.tokens;
    totals.finished += totals_.finished;
    totals.cancelled += totals_.cancelled;
    totals.refused += totals_.refused;
    totals.preemptions += totals_.preemptions;
    totals.hits += totals_.hits;
    return trace_;
  }

 private:
  static bool ok() { return !testing::Test::HasFailure(); }
  std::size_t below(std::size_t n) { return random_() % n; }
  bool chance(std::size_t one_in) { return below(one_in) == 0; }
  template <std::size_t N>
  int pick(const int (&from)[N]) {
    return from[below(N)];
  }
  int window(std::size_t group) const { return layout_.groups[group].window; }

  // Tokens the pool has room for.
  std::size_t room_tokens() const {
    return kv_->capacity() * static_cast<std::size_t>(layout_.block_tokens) / layout_.groups.size();
  }

  Tokens random_prompt() {
    Tokens prompt;
    // Often somebody's text so far, or a piece of it, so that prefixes are shared with running, waiting and finished
    // sequences.
    if (!texts_.empty() && !chance(3)) {
      prompt = texts_[below(texts_.size())];
      if (chance(2)) prompt.resize(1 + below(prompt.size()));
    }
    // Mostly short for the pool, so that several run and grow until they collide.
    const std::size_t room = room_tokens() / (chance(4) ? 1 : 3);
    if (prompt.size() > room) prompt.resize(room);
    const std::size_t more = below(std::min<std::size_t>(room, 60) + 2);
    for (std::size_t i = 0; i < more; ++i) prompt.push_back(static_cast<TokenId>(chance(8)));
    if (prompt.empty()) prompt.push_back(0);
    return prompt;
  }

  void submit() {
    NewSequence fresh;
    fresh.id = SeqId{next_id_++};
    fresh.prompt = random_prompt();
    fresh.max_tokens =
        chance(12) ? 0 : static_cast<std::int64_t>(1 + below(std::min<std::size_t>(room_tokens(), 40) + 1));
    fresh.priority = static_cast<int>(below(3));
    fresh.arrival_s = static_cast<double>(totals_.steps);
    fresh.use_prefix_cache = !chance(8);
    // Another salt, another context: the fake model has the salt in its text, so that a hit across salts is seen.
    if (chance(4)) {
      fresh.cache_salt = "salt";
      fresh.prompt[0] = 7;
    }
    const auto prompt_tokens = static_cast<std::int64_t>(fresh.prompt.size());
    if (!scheduler_->check_fits(prompt_tokens, fresh.max_tokens)) {
      ++totals_.refused;
      return;
    }
    Live s;
    s.prompt_tokens = prompt_tokens;
    s.max_tokens = fresh.max_tokens;
    for (const TokenId token : fresh.prompt) s.push(token);
    if (limits_.policy == Policy::kFcfs) {
      // The oldest sequence alive advances in every step and never loses anything: so everybody is done after all the
      // tokens of the older ones and its own.
      s.steps_allowed = prompt_tokens + fresh.max_tokens + 1;
      for (const auto& [id, older] : live_) s.steps_allowed += older.prompt_tokens + older.max_tokens;
    }
    live_.emplace(fresh.id, std::move(s));
    scheduler_->add(std::move(fresh));
  }

  void cancel() {
    if (live_.empty()) return;
    const auto it = std::next(live_.begin(), static_cast<std::ptrdiff_t>(below(live_.size())));
    scheduler_->finish(it->first);
    kv_->check_integrity();
    live_.erase(it);
    ++totals_.cancelled;
  }

  void step() {
    const StepPlan& plan = scheduler_->schedule(static_cast<double>(totals_.steps));
    check_plan(plan);
    Tokens sampled;
    for (const ScheduledRange& range : plan.ranges) {
      compute(range);
      if (range.samples && ok()) sampled.push_back(sample(range));
      if (!ok()) return;
    }
    scheduler_->commit(plan, sampled);
    std::size_t next = 0;
    for (const ScheduledRange& range : plan.ranges) accept(range, range.samples ? &sampled[next++] : nullptr);
    kv_->check_integrity();
    ++totals_.steps;
    for (auto& [id, s] : live_) {
      ++s.steps;
      if (s.steps_allowed > 0 && s.steps > s.steps_allowed) {
        ADD_FAILURE() << "sequence " << value(id) << " starves: " << s.steps << " steps";
      }
    }
  }

  void check_plan(const StepPlan& plan) {
    std::int64_t tokens = 0;
    std::map<SeqId, int> seen;
    ASSERT_TRUE(!plan.empty() || live_.empty());
    ASSERT_TRUE(plan.preempted.empty() || plan.admitted.empty());
    for (const SeqId id : plan.preempted) ASSERT_EQ(scheduler_->computed_tokens(id), 0);
    for (const SeqId id : plan.admitted) {
      Live& s = live_.at(id);
      if (limits_.policy == Policy::kFcfs && !s.admitted) {
        ASSERT_GE(value(id), last_admitted_) << "somebody was overtaken";
        last_admitted_ = value(id);
      }
      s.admitted = true;
    }
    for (const ScheduledRange& range : plan.ranges) {
      const Live& s = live_.at(range.id);
      ASSERT_EQ(++seen[range.id], 1);
      ASSERT_TRUE(s.admitted);
      ASSERT_EQ(range.begin, scheduler_->computed_tokens(range.id));
      ASSERT_LT(range.begin, range.end);
      ASSERT_LE(range.end, s.known());
      ASSERT_EQ(range.samples, range.end == s.known() && s.max_tokens > 0);
      tokens += range.end - range.begin;
      trace_ = mix(mix(mix(trace_, value(range.id)), static_cast<std::uint64_t>(range.begin)),
                   static_cast<std::uint64_t>(range.end));
      for (std::size_t g = 0; g < layout_.groups.size(); ++g) {
        for (const std::int32_t block : kv_->block_table(range.id, static_cast<int>(g))) {
          trace_ = mix(trace_, static_cast<std::uint64_t>(block));
        }
      }
    }
    ASSERT_LE(tokens, limits_.max_num_batched_tokens);
    ASSERT_LE(scheduler_->stats().running, limits_.max_num_seqs);
    ASSERT_EQ(static_cast<std::size_t>(scheduler_->stats().running + scheduler_->stats().waiting), live_.size());
    totals_.tokens += static_cast<std::uint64_t>(tokens);
  }

  std::uint64_t& slot(std::span<const std::int32_t> table, std::int64_t position) {
    const std::int32_t block = table[static_cast<std::size_t>(position / layout_.block_tokens)];
    if (block < 0) ADD_FAILURE() << "position " << position << " is read and has no block";
    return slots_[static_cast<std::size_t>(std::max(block, 0) * layout_.block_tokens +
                                           position % layout_.block_tokens)];
  }

  // Writes the range's slots, then reads all that its queries see.
  void compute(const ScheduledRange& range) {
    const Live& s = live_.at(range.id);
    for (std::size_t g = 0; g < layout_.groups.size(); ++g) {
      const auto table = kv_->block_table(range.id, static_cast<int>(g));
      const auto content = [&](std::int64_t p) { return slot_content(s.context[static_cast<std::size_t>(p)], g); };
      for (std::int64_t p = range.begin; p < range.end; ++p) {
        std::uint64_t& cell = slot(table, p);
        ASSERT_EQ(cell, kPoison) << "position " << p << " of sequence " << value(range.id)
                                 << " goes where something is kept";
        cell = content(p);
      }
      const std::int64_t first = window(g) ? std::max<std::int64_t>(0, range.begin - window(g) + 1) : 0;
      for (std::int64_t p = first; p < range.end; ++p) {
        ASSERT_EQ(slot(table, p), content(p))
            << "position " << p << " of sequence " << value(range.id) << ", group " << g;
      }
    }
  }

  TokenId sample(const ScheduledRange& range) {
    std::uint64_t read = 0;
    for (std::size_t g = 0; g < layout_.groups.size(); ++g) {
      read = mix(read, slot(kv_->block_table(range.id, static_cast<int>(g)), range.end - 1));
    }
    return next_token(read);
  }

  void accept(const ScheduledRange& range, const TokenId* sampled) {
    Live& s = live_.at(range.id);
    if (sampled != nullptr) s.push(*sampled);
    const std::int64_t output = s.known() - s.prompt_tokens;
    const bool all = s.max_tokens == 0 ? range.end == s.prompt_tokens : output == s.max_tokens;
    const bool stops = sampled != nullptr && chance(40);
    if (!all && !stops) return;
    check_reply(s);
    ASSERT_TRUE(std::ranges::equal(scheduler_->tokens(range.id), s.tokens));
    if (texts_.size() < 8) texts_.emplace_back();
    texts_[below(texts_.size())] = s.tokens;
    std::erase_if(texts_, [](const Tokens& text) { return text.empty(); });
    scheduler_->finish(range.id);
    live_.erase(range.id);
    ++totals_.finished;
  }

  // The reply equals what the model says when it reads the text alone.
  void check_reply(const Live& s) const {
    Live solo;
    for (std::int64_t i = 0; i < s.prompt_tokens; ++i) solo.push(s.tokens[static_cast<std::size_t>(i)]);
    while (solo.known() < s.known()) {
      std::uint64_t read = 0;
      for (std::size_t g = 0; g < layout_.groups.size(); ++g) read = mix(read, slot_content(solo.context.back(), g));
      solo.push(next_token(read));
    }
    ASSERT_EQ(solo.tokens, s.tokens);
  }

  void check_idle() {
    ASSERT_EQ(kv_->stats().in_use, 0u);
    ASSERT_TRUE(scheduler_->schedule(0).empty());
    kv_->clear_cache();
    kv_->check_integrity();
    ASSERT_EQ(kv_->stats().free, kv_->capacity());
    for (const std::uint64_t cell : slots_) ASSERT_EQ(cell, kPoison) << "contents were forgotten without a word";
  }

  std::mt19937 random_;
  SchedulerConfig limits_;
  kv::KvLayout layout_;
  std::vector<std::uint64_t> slots_;  // by block * block_tokens + offset
  std::unique_ptr<kv::KvManager> kv_;
  std::unique_ptr<Scheduler> scheduler_;
  std::map<SeqId, Live> live_;
  std::vector<Tokens> texts_;  // of finished sequences
  std::uint64_t next_id_ = 0, last_admitted_ = 0;
  std::size_t arrivals_ = 1;  // in four steps
  std::uint64_t trace_ = 0;
  Totals totals_;
};

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

constexpr int kBusySteps = 300;

TEST(SchedulerSim, MillionsOfSteps) {
  const std::uint64_t steps = from_environment("WEIR_SIM_STEPS", 3'000'000);
  auto seed = static_cast<std::uint32_t>(from_environment("WEIR_SIM_SEED", 1));
  Totals totals;
  for (; totals.steps < steps; ++seed) {
    SCOPED_TRACE(testing::Message() << "WEIR_SIM_SEED=" << seed);
    Episode(seed).run(kBusySteps, totals);
    if (HasFailure()) return;
  }
  std::printf(
      "%llu steps, %llu tokens, %llu finished, %llu cancelled, %llu refused, %llu preemptions, %llu tokens from the "
      "cache\n",
      static_cast<unsigned long long>(totals.steps), static_cast<unsigned long long>(totals.tokens),
      static_cast<unsigned long long>(totals.finished), static_cast<unsigned long long>(totals.cancelled),
      static_cast<unsigned long long>(totals.refused), static_cast<unsigned long long>(totals.preemptions),
      static_cast<unsigned long long>(totals.hits));
  // The hard cases must really occur, or all this shows nothing.
  EXPECT_GT(totals.preemptions, totals.steps / 200);
  EXPECT_GT(totals.hits, totals.tokens / 50);
  EXPECT_GT(totals.finished, totals.cancelled);
}

TEST(SchedulerSim, SameEventsSamePlans) {
  for (std::uint32_t seed = 1; seed <= 100; ++seed) {
    Totals totals;
    EXPECT_EQ(Episode(seed).run(kBusySteps, totals), Episode(seed).run(kBusySteps, totals)) << "seed " << seed;
  }
}

}  // namespace
}  // namespace weir::sched
