#include "kv/kv_manager.h"

#include <gtest/gtest.h>

#include <numeric>

namespace weir::kv {
namespace {

using Tokens = std::vector<TokenId>;

KvConfig config(std::initializer_list<int> windows, int block_tokens, std::uint32_t blocks,
                PrefixIndexKind index = PrefixIndexKind::kHash) {
  KvConfig c;
  c.layout.block_tokens = block_tokens;
  for (const int window : windows) c.layout.groups.push_back({window, {}});
  c.num_blocks = blocks;
  c.prefix_index = index;
  c.model_id = "model";
  return c;
}

Tokens text(int length, int first = 0) {
  Tokens tokens(static_cast<std::size_t>(length));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

// Computes all of `tokens` in one go, and checks.
void compute(KvManager& kv, SeqId seq, const Tokens& tokens, std::string_view salt = "", bool use_prefix = true) {
  const std::int64_t computed = kv.begin(seq, tokens, salt, use_prefix);
  ASSERT_EQ(kv.extend(seq, computed, static_cast<std::int64_t>(tokens.size())), Fit::kNow);
  kv.commit(seq, tokens, static_cast<std::int64_t>(tokens.size()));
  kv.check_integrity();
}

std::vector<std::int32_t> table(const KvManager& kv, SeqId seq, int group = 0) {
  const auto view = kv.block_table(seq, group);
  return {view.begin(), view.end()};
}

TEST(KvManager, GrowsBlockByBlock) {
  KvManager kv(config({0}, 4, 3));
  EXPECT_EQ(kv.begin(SeqId{1}, text(5), "", true), 0);
  EXPECT_EQ(table(kv, SeqId{1}).size(), 0u);
  EXPECT_EQ(kv.extend(SeqId{1}, 0, 4), Fit::kNow);
  EXPECT_EQ(table(kv, SeqId{1}).size(), 1u);
  const auto before = table(kv, SeqId{1});
  EXPECT_EQ(kv.extend(SeqId{1}, 4, 5), Fit::kNow);
  EXPECT_EQ(table(kv, SeqId{1}).size(), 2u);
  EXPECT_EQ(table(kv, SeqId{1})[0], before[0]) << "entries stay";
  EXPECT_EQ(kv.extend(SeqId{1}, 5, 8), Fit::kNow);
  EXPECT_EQ(kv.stats().in_use, 2u);
  EXPECT_EQ(kv.reachable(SeqId{1}, 5, 100), 12);
  EXPECT_EQ(kv.extend(SeqId{1}, 5, 13), Fit::kNever);
  kv.check_integrity();
  kv.free(SeqId{1});
  EXPECT_EQ(kv.stats().free, 3u) << "nothing was committed, so nothing is worth keeping";
}

TEST(KvManager, NotNowChangesNothing) {
  KvManager kv(config({0, 2}, 2, 5));
  kv.begin(SeqId{1}, text(4), "", true);
  ASSERT_EQ(kv.extend(SeqId{1}, 0, 4), Fit::kNow);
  kv.begin(SeqId{2}, text(4, 50), "", true);
  EXPECT_EQ(kv.extend(SeqId{2}, 0, 1), Fit::kNotNow) << "needs a block in each of two groups, one is left";
  EXPECT_EQ(kv.stats().in_use, 4u);
  EXPECT_EQ(table(kv, SeqId{2}).size(), 0u);
  EXPECT_EQ(kv.reachable(SeqId{2}, 0, 1), 0);
  kv.check_integrity();
}

TEST(KvManager, FindsWhatWasComputedAndOnlyThat) {
  KvManager kv(config({0}, 4, 8));
  const Tokens tokens = text(12);
  kv.begin(SeqId{1}, tokens, "", true);
  ASSERT_EQ(kv.extend(SeqId{1}, 0, 12), Fit::kNow);
  EXPECT_EQ(kv.peek_prefix(tokens, ""), 0) << "room is not content";
  kv.commit(SeqId{1}, tokens, 7);
  EXPECT_EQ(kv.peek_prefix(tokens, ""), 4) << "a block half computed is not findable";
  kv.commit(SeqId{1}, tokens, 12);
  EXPECT_EQ(kv.peek_prefix(tokens, ""), 8) << "at least one token must be computed";
  EXPECT_EQ(kv.peek_prefix(text(13), ""), 12);
  EXPECT_EQ(kv.peek_prefix(text(13), "salt"), 0);
  EXPECT_EQ(kv.peek_prefix(text(13, 1), ""), 0);
  Tokens other = text(13);
  other[5] = 99;
  EXPECT_EQ(kv.peek_prefix(other, ""), 4);

  EXPECT_EQ(kv.begin(SeqId{2}, text(13), "", true), 12);
  EXPECT_EQ(table(kv, SeqId{2}), table(kv, SeqId{1})) << "shared, not copied";
  EXPECT_EQ(kv.stats().in_use, 3u);
  kv.check_integrity();
  EXPECT_EQ(kv.begin(SeqId{3}, text(13), "", false), 0) << "not asked for";
}

TEST(KvManager, CachedBlocksOutliveTheirSequenceUntilSpaceIsNeeded) {
  KvManager kv(config({0}, 2, 4));
  compute(kv, SeqId{1}, text(8));
  kv.free(SeqId{1});
  EXPECT_EQ(kv.stats().idle, 4u);
  EXPECT_EQ(kv.peek_prefix(text(9), ""), 8);

  // Two blocks go to somebody else: the tail is lost, the head stays.
  compute(kv, SeqId{2}, text(3, 100));
  EXPECT_EQ(kv.peek_prefix(text(9), ""), 4);
  kv.clear_cache();
  EXPECT_EQ(kv.peek_prefix(text(9), ""), 0);
  EXPECT_EQ(kv.peek_prefix(text(3, 100), ""), 2) << "what is in use stays";
  kv.check_integrity();
}

TEST(KvManager, TheFirstOfTwoEqualBlocksIsTheCanonicalOne) {
  KvManager kv(config({0}, 2, 4));
  const Tokens tokens = text(2);
  for (const SeqId seq : {SeqId{1}, SeqId{2}}) {
    kv.begin(seq, tokens, "", true);
    ASSERT_EQ(kv.extend(seq, 0, 2), Fit::kNow);
  }
  kv.commit(SeqId{2}, tokens, 2);
  kv.commit(SeqId{1}, tokens, 2);
  kv.check_integrity();
  const auto canonical = table(kv, SeqId{2});
  kv.free(SeqId{1});
  EXPECT_EQ(kv.stats().free, 3u) << "the duplicate is not worth keeping";
  kv.free(SeqId{2});
  EXPECT_EQ(kv.stats().idle, 1u);
  EXPECT_EQ(kv.begin(SeqId{3}, text(3), "", true), 2);
  EXPECT_EQ(table(kv, SeqId{3}), canonical);
}

TEST(KvManager, WindowsGiveBackWhatNobodySees) {
  KvManager kv(config({3}, 2, 4));
  const Tokens tokens = text(20);
  kv.begin(SeqId{1}, tokens, "", true);
  for (std::int64_t computed = 0; computed < 20; ++computed) {
    ASSERT_EQ(kv.extend(SeqId{1}, computed, computed + 1), Fit::kNow);
    kv.commit(SeqId{1}, tokens, computed + 1);
    kv.check_integrity();
    EXPECT_LE(kv.stats().in_use, kv.blocks_needed(20, 1));
    const auto blocks = table(kv, SeqId{1});
    for (std::int64_t i = 0; i <= computed / 2; ++i) {
      const bool visible = i * 2 + 1 >= computed - 2;  // its last token is at or after the first one the query sees
      EXPECT_EQ(blocks[static_cast<std::size_t>(i)] >= 0, visible) << "block " << i << ", query " << computed;
    }
  }
}

// Full attention needs the whole prefix, a window only its end; the hit must be good for both.
TEST(KvManager, AHitIsValidInEveryGroup) {
  KvManager kv(config({0, 3}, 2, 12));
  const Tokens tokens = text(12);
  kv.begin(SeqId{1}, tokens, "", true);
  for (std::int64_t computed = 0; computed < 12; computed += 2) {
    ASSERT_EQ(kv.extend(SeqId{1}, computed, computed + 2), Fit::kNow);
    kv.commit(SeqId{1}, tokens, computed + 2);
  }
  kv.check_integrity();
  EXPECT_EQ(kv.begin(SeqId{2}, text(13), "", true), 12);
  EXPECT_EQ(table(kv, SeqId{2}, 0), table(kv, SeqId{1}, 0));
  const auto windowed = table(kv, SeqId{2}, 1);
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(windowed[i], -1) << "the next query, 12, sees 10 and 11";
  EXPECT_GE(windowed[5], 0);
  kv.check_integrity();
  kv.free(SeqId{1});
  kv.free(SeqId{2});
  EXPECT_EQ(kv.peek_prefix(text(13), ""), 12);
  EXPECT_EQ(kv.peek_prefix(text(5), ""), 4) << "the early windowed blocks are idle, not gone";

  // Take the idle blocks one by one. The hit shrinks, and is at all times what a look at the whole cache says.
  std::int64_t last = 12;
  for (int i = 0; i < 6; ++i) {
    compute(kv, SeqId{static_cast<std::uint64_t>(10 + i)}, text(1, 1000 + i));
    const std::int64_t hit = kv.peek_prefix(text(13), "");
    EXPECT_LE(hit, last);
    last = hit;
  }
  EXPECT_EQ(last, 0);
}

// Hit blocks that are idle count among available(); taking them over must not make room appear from nowhere.
TEST(KvManager, IdleHitBlocksAreNotRoomForTheRest) {
  KvManager kv(config({0}, 2, 4));
  compute(kv, SeqId{1}, text(4));
  kv.free(SeqId{1});
  compute(kv, SeqId{2}, text(1, 500));
  EXPECT_EQ(kv.available(), 3u);
  PrefixNames names;
  PrefixHit hit = kv.find_prefix(text(8), "", names);
  EXPECT_EQ(hit.tokens, 4);
  EXPECT_EQ(hit.shared_blocks, 0u);
  EXPECT_GT(kv.blocks_needed(8, 1), kv.available() + hit.shared_blocks) << "4 needed: 2 idle ones, 2 of the 1 other";

  EXPECT_EQ(kv.begin(SeqId{3}, text(5), "", true), 4);
  hit = kv.find_prefix(text(6), "", names);
  EXPECT_EQ(hit.shared_blocks, 2u);
  EXPECT_EQ(kv.available(), 1u);
  EXPECT_LE(kv.blocks_needed(6, 1), kv.available() + hit.shared_blocks) << "3 needed: 2 in use anyway, 1 available";
}

TEST(KvManager, NamesSurvivePreemption) {
  KvManager kv(config({0}, 2, 4));
  Tokens tokens = text(6);
  PrefixNames names;
  EXPECT_EQ(kv.find_prefix(tokens, "s", names).tokens, 0);
  EXPECT_EQ(kv.begin(SeqId{1}, tokens, "s", true, &names), 0);
  EXPECT_TRUE(names.blocks.empty());
  ASSERT_EQ(kv.extend(SeqId{1}, 0, 6), Fit::kNow);
  kv.commit(SeqId{1}, tokens, 6);
  kv.free(SeqId{1}, &names);
  EXPECT_EQ(names.blocks.size(), 3u);
  tokens.push_back(77);
  EXPECT_EQ(kv.begin(SeqId{1}, tokens, "s", true, &names), 6);
  kv.check_integrity();
}

TEST(KvManager, WithoutAnIndexNothingIsKept) {
  KvManager kv(config({0}, 2, 4, PrefixIndexKind::kNone));
  compute(kv, SeqId{1}, text(4));
  EXPECT_EQ(kv.peek_prefix(text(5), ""), 0);
  kv.free(SeqId{1});
  EXPECT_EQ(kv.stats().free, 4u);
  kv.clear_cache();
}

TEST(KvManager, SaysWhichContentsAreGone) {
  std::vector<std::uint32_t> discarded;
  KvConfig c = config({0}, 2, 2);
  c.on_discard = [&discarded](BlockId block) { discarded.push_back(value(block)); };
  KvManager kv(std::move(c));
  compute(kv, SeqId{1}, text(3));
  const auto blocks = table(kv, SeqId{1});
  kv.free(SeqId{1});
  ASSERT_EQ(discarded.size(), 1u) << "the half full block; the full one is cached";
  EXPECT_EQ(discarded[0], static_cast<std::uint32_t>(blocks[1]));
  compute(kv, SeqId{2}, text(3, 9));
  ASSERT_EQ(discarded.size(), 2u) << "the cached one had to make room";
  EXPECT_EQ(discarded[1], static_cast<std::uint32_t>(blocks[0]));
}

TEST(KvManagerDeathTest, MisuseIsABug) {
  KvManager kv(config({0}, 2, 2));
  kv.begin(SeqId{1}, text(3), "", true);
  EXPECT_DEATH(kv.begin(SeqId{1}, text(3), "", true), "already begun");
  EXPECT_DEATH(kv.free(SeqId{2}), "has not begun");
  EXPECT_DEATH(kv.commit(SeqId{1}, text(3), 2), "computed in 0 blocks");
}

// Recurrent state: so many whole blocks per sequence, from its first token to its end.
TEST(KvManager, StateTakesBlocksOfItsOwn) {
  KvConfig c = config({0}, 4, 10, PrefixIndexKind::kNone);
  c.layout.state_blocks = 3;
  std::vector<std::uint32_t> discarded;
  c.on_discard = [&](BlockId block) { discarded.push_back(value(block)); };
  KvManager kv(std::move(c));
  EXPECT_EQ(kv.blocks_needed(0, 1), 0u);
  EXPECT_EQ(kv.blocks_needed(1, 1), 4u);
  EXPECT_EQ(kv.blocks_needed(9, 1), 6u);
  const Tokens tokens = text(9);
  EXPECT_EQ(kv.begin(SeqId{1}, tokens, "", true), 0);
  EXPECT_EQ(kv.reachable(SeqId{1}, 0, 100), 28) << "three of ten blocks are for the state";
  ASSERT_EQ(kv.extend(SeqId{1}, 0, 9), Fit::kNow);
  EXPECT_EQ(kv.state_blocks(SeqId{1}).size(), 3u);
  EXPECT_EQ(kv.stats().in_use, 6u);
  kv.check_integrity();
  ASSERT_EQ(kv.extend(SeqId{1}, 9, 13), Fit::kNow);
  EXPECT_EQ(kv.stats().in_use, 7u) << "it has its state already";
  kv.begin(SeqId{2}, tokens, "", true);
  EXPECT_EQ(kv.reachable(SeqId{2}, 0, 9), 0) << "the state alone would fit";
  EXPECT_EQ(kv.extend(SeqId{2}, 0, 1), Fit::kNotNow);
  EXPECT_EQ(kv.state_blocks(SeqId{2}).size(), 0u);
  EXPECT_EQ(kv.extend(SeqId{2}, 0, 29), Fit::kNever);
  kv.check_integrity();
  kv.free(SeqId{1});
  EXPECT_EQ(discarded.size(), 7u);
  EXPECT_EQ(kv.extend(SeqId{2}, 0, 28), Fit::kNow);
  kv.check_integrity();
  kv.free(SeqId{2});
  EXPECT_EQ(kv.stats().free, 10u);
}

// Writes into each block of state what it should hold after so many tokens, as a model would.
class States {
 public:
  explicit States(std::uint32_t blocks, std::int64_t state_blocks = 2) : cells_(blocks, -1) {
    KvConfig c = config({0}, 4, blocks);
    c.layout.state_blocks = state_blocks;
    c.on_discard = [this](BlockId block) { cells_[value(block)] = -1; };
    c.on_copy = [this](BlockId from, BlockId to) { cells_[value(to)] = cells_[value(from)]; };
    kv_ = std::make_unique<KvManager>(std::move(c));
  }
  KvManager& kv() { return *kv_; }

  // What a prefix of `tokens` spares; then the rest is computed, in steps that end where they had better.
  std::int64_t run(SeqId seq, const Tokens& tokens) {
    const auto length = static_cast<std::int64_t>(tokens.size());
    const std::int64_t cached = kv_->begin(seq, tokens, "", true);
    kv_->check_integrity();
    for (std::int64_t computed = cached; computed < length;) {
      const std::int64_t end = kv_->step_end(seq, computed, length);
      EXPECT_EQ(kv_->extend(seq, computed, end), Fit::kNow);
      for (const std::int32_t block : kv_->state_blocks(seq)) {
        std::int64_t& cell = cells_[static_cast<std::size_t>(block)];
        EXPECT_TRUE(computed == 0 || cell == computed) << "a state of " << cell << " tokens after " << computed;
        cell = end;
      }
      computed = end;
      kv_->commit(seq, tokens, computed);
      kv_->check_integrity();
    }
    return cached;
  }

 private:
  std::vector<std::int64_t> cells_;
  std::unique_ptr<KvManager> kv_;
};

Tokens joined(Tokens a, const Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST(KvManager, StateIsKeptBeforeTheLastTokenOfAText) {
  States states(20);
  EXPECT_EQ(states.run(SeqId{1}, text(14)), 0);
  EXPECT_EQ(states.kv().stats().idle, 2u) << "one state is kept, while the sequence goes on";
  states.kv().free(SeqId{1});
  EXPECT_EQ(states.run(SeqId{2}, text(14)), 12);
  EXPECT_EQ(states.run(SeqId{3}, text(30)), 12) << "of a longer text, too";
  states.kv().free(SeqId{2});
  states.kv().free(SeqId{3});
  EXPECT_EQ(states.run(SeqId{4}, text(29)), 28);
  states.kv().clear_cache();
  states.kv().check_integrity();
  EXPECT_EQ(states.kv().peek_prefix(text(14), ""), 0) << "there are keys and values, but no state";
}

TEST(KvManager, StateIsKeptWhereTextsWereSeenToPart) {
  States states(40);
  const Tokens common = text(9);
  EXPECT_EQ(states.run(SeqId{1}, joined(common, text(10, 100))), 0);
  EXPECT_EQ(states.run(SeqId{2}, joined(common, text(10, 200))), 0) << "no state there yet";
  EXPECT_EQ(states.run(SeqId{3}, joined(common, text(10, 300))), 8);
}

TEST(KvManager, KeptStateGoesToTheSequenceWhereACopyHasNoRoom) {
  States states(7);
  EXPECT_EQ(states.run(SeqId{1}, text(5)), 0);
  states.kv().free(SeqId{1});
  EXPECT_EQ(states.run(SeqId{2}, text(3, 50)), 0);
  EXPECT_EQ(states.kv().stats().free, 1u) << "a state takes two";
  EXPECT_EQ(states.run(SeqId{3}, text(5)), 4);
  EXPECT_EQ(states.kv().peek_prefix(text(5), ""), 0) << "it was not copied";
  states.kv().free(SeqId{2});
  states.kv().free(SeqId{3});
  EXPECT_EQ(states.kv().stats().idle, 1u) << "the first four tokens";
}

}  // namespace
}  // namespace weir::kv
