// Random operations on tiny pools against a model that knows what every slot of the cache holds.
//
// The model writes into each slot a hash of everything its content depends on (all tokens up to it, salt, group) and
// forgets a block when KvManager says its contents are gone. After every operation, each slot that a sequence's next
// query sees must hold its own text.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <tuple>

#include "kv/kv_manager.h"

namespace weir::kv {
namespace {

using Tokens = std::vector<TokenId>;

constexpr std::uint64_t kPoison = 0;

struct Modelled {
  Tokens tokens;
  std::string salt;
  std::int64_t computed = 0;
  std::int64_t committed = 0;  // blocks; each is offered to the index once
};

class World {
 public:
  explicit World(std::uint32_t seed) : random_(seed) {
    static constexpr int kBlockTokens[] = {1, 2, 3, 4, 16};
    KvConfig config;
    config.layout.block_tokens = kBlockTokens[random_() % 5];
    static const std::vector<std::vector<int>> kWindows = {{0}, {0, 3}, {5}, {0, 4, 1}, {2, 7}, {0, 0}, {16, 0}};
    for (const int window : kWindows[random_() % kWindows.size()]) config.layout.groups.push_back({window, {}});
    config.num_blocks = 1 + random_() % 12;
    config.prefix_index = random_() % 8 ? PrefixIndexKind::kHash : PrefixIndexKind::kNone;
    config.layout.state_blocks = random_() % 3 == 0 ? 1 + random_() % 2 : 0;
    config.num_blocks += 4 * static_cast<std::uint32_t>(config.layout.state_blocks);
    config.on_discard = [this](BlockId block) { discard(value(block)); };
    config.on_copy = [this](BlockId from, BlockId to) { first_slot(value(to)) = first_slot(value(from)); };
    slots_.resize(config.num_blocks * static_cast<std::size_t>(config.layout.block_tokens), kPoison);
    layout_ = config.layout;
    has_index_ = config.prefix_index != PrefixIndexKind::kNone;
    kv_ = std::make_unique<KvManager>(std::move(config));
  }

  void step() {
    switch (random_() % 8) {
      case 0:
      case 1:
        begin();
        break;
      case 2:
        finish();
        break;
      case 3:
        if (random_() % 16 == 0) kv_->clear_cache();
        break;
      default:
        compute();
    }
    kv_->check_integrity();
    for (const auto& [id, s] : sequences_) check_contents(id, s);
  }

 private:
  int window(std::size_t group) const { return layout_.groups[group].window; }
  std::int64_t block_tokens() const { return layout_.block_tokens; }

  static std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
    std::uint64_t x = (a ^ (b + 0x9E3779B97F4A7C15)) * 0xBF58476D1CE4E5B9;
    x ^= x >> 29;
    return x * 0x94D049BB133111EB + 1;
  }

  std::uint64_t& first_slot(std::uint32_t block) {
    return slots_[block * static_cast<std::size_t>(layout_.block_tokens)];
  }
  // What block `part` of the state must hold when so many tokens are computed.
  static std::uint64_t state(const Modelled& s, std::size_t part, std::int64_t computed) {
    return content(s, 1000 + part, computed - 1);
  }

  // What the slot of position `position` must hold.
  static std::uint64_t content(const Modelled& s, std::size_t group, std::int64_t position) {
    std::uint64_t hash = mix(group, std::hash<std::string>{}(s.salt));
    for (std::int64_t i = 0; i <= position; ++i)
      hash = mix(hash, static_cast<std::uint64_t>(s.tokens[static_cast<std::size_t>(i)]));
    return hash;
  }

  std::uint64_t& slot(SeqId id, std::size_t group, std::int64_t position) {
    const auto table = kv_->block_table(id, static_cast<int>(group));
    const std::int32_t block = table[static_cast<std::size_t>(position / block_tokens())];
    EXPECT_GE(block, 0) << "position " << position;
    return slots_[static_cast<std::size_t>(std::max(block, 0) * block_tokens() + position % block_tokens())];
  }

  void check_contents(SeqId id, const Modelled& s) {
    for (std::size_t g = 0; g < layout_.groups.size(); ++g) {
      const std::int64_t first = window(g) ? std::max<std::int64_t>(0, s.computed - window(g) + 1) : 0;
      for (std::int64_t p = first; p < s.computed; ++p) ASSERT_EQ(slot(id, g, p), content(s, g, p)) << "position " << p;
    }
    const auto blocks = kv_->state_blocks(id);
    ASSERT_TRUE(s.computed == 0 || static_cast<std::int64_t>(blocks.size()) == layout_.state_blocks);
    for (std::size_t i = 0; s.computed > 0 && i < blocks.size(); ++i)
      ASSERT_EQ(first_slot(static_cast<std::uint32_t>(blocks[i])), state(s, i, s.computed));
  }

  // Few tokens and short texts, so that texts share prefixes often.
  Tokens random_text() {
    Tokens tokens(1 + random_() % static_cast<std::size_t>(3 * block_tokens() + 4));
    for (TokenId& token : tokens) token = random_() % 6 == 0;
    return tokens;
  }

  // The longest whole-block prefix that every group can continue, by looking at the cache for every length.
  std::int64_t expected_hit(const Modelled& s) const {
    if (!has_index_) return 0;
    const auto cached = [&](std::size_t g, std::int64_t block) {
      const Tokens prefix(s.tokens.begin(), s.tokens.begin() + (block + 1) * block_tokens());
      return index_.contains({g, s.salt, prefix});
    };
    for (std::int64_t length = (static_cast<std::int64_t>(s.tokens.size()) - 1) / block_tokens(); length > 0;
         --length) {
      bool valid = true;
      for (std::size_t g = 0; g < layout_.groups.size(); ++g) {
        const std::int64_t query = length * block_tokens();
        for (std::int64_t p = window(g) ? std::max<std::int64_t>(0, query - window(g) + 1) : 0; p < query; ++p) {
          valid = valid && cached(g, p / block_tokens());
        }
      }
      if (valid) return length * block_tokens();
    }
    return 0;
  }

  void begin() {
    if (sequences_.size() >= 4) return;
    Modelled s{random_text(), random_() % 4 ? "" : "salt", 0};
    const SeqId id{next_id_++};
    std::int64_t expected = expected_hit(s);
    if (layout_.state_blocks > 0) {  // which states are kept is not modelled, what is in them is
      ASSERT_LE(kv_->peek_prefix(s.tokens, s.salt), expected);
      expected = kv_->peek_prefix(s.tokens, s.salt);
    }
    const bool use_prefix = random_() % 8 != 0;
    s.computed = kv_->begin(id, s.tokens, s.salt, use_prefix);
    ASSERT_EQ(s.computed, use_prefix ? expected : 0);
    s.committed = s.computed / block_tokens();
    if (layout_.state_blocks > 0) restored += s.computed > 0;
    sequences_.emplace(id, std::move(s));
  }

  void finish() {
    if (sequences_.empty()) return;
    const auto it = std::next(sequences_.begin(), static_cast<std::ptrdiff_t>(random_() % sequences_.size()));
    kv_->free(it->first);
    sequences_.erase(it);
  }

  void compute() {
    if (sequences_.empty()) return;
    auto& [id, s] = *std::next(sequences_.begin(), static_cast<std::ptrdiff_t>(random_() % sequences_.size()));
    if (s.computed == static_cast<std::int64_t>(s.tokens.size())) s.tokens.push_back(random_() % 6 == 0);
    const std::int64_t left = static_cast<std::int64_t>(s.tokens.size()) - s.computed;
    std::int64_t want = s.computed + 1 + static_cast<std::int64_t>(random_()) % left;
    if (random_() % 2) want = kv_->step_end(id, s.computed, static_cast<std::int64_t>(s.tokens.size()));
    const std::int64_t reachable = kv_->reachable(id, s.computed, want);
    const KvStats before = kv_->stats();
    const Fit fit = kv_->extend(id, s.computed, want);
    ASSERT_EQ(fit == Fit::kNow, reachable == want);
    if (fit != Fit::kNow) {
      ASSERT_EQ(kv_->stats().free, before.free);
      ASSERT_EQ(kv_->stats().idle, before.idle);
      ASSERT_TRUE(fit != Fit::kNever || kv_->blocks_needed(want, want - s.computed) > kv_->capacity());
      return;
    }
    ASSERT_LE(held(id), kv_->blocks_needed(want, want - s.computed));
    for (std::size_t g = 0; g < layout_.groups.size(); ++g) {
      for (std::int64_t p = s.computed; p < want; ++p) {
        std::uint64_t& cell = slot(id, g, p);
        ASSERT_EQ(cell, kPoison) << "position " << p << " goes where something is kept";
        cell = content(s, g, p);
      }
    }
    const auto blocks = kv_->state_blocks(id);
    for (std::size_t i = 0; i < blocks.size(); ++i)
      first_slot(static_cast<std::uint32_t>(blocks[i])) = state(s, i, want);
    s.computed = want;
    if (random_() % 8 == 0) return;  // committed later
    if (has_index_) note_names(id, s);
    kv_->commit(id, s.tokens, s.computed);
  }

  // What commit() makes findable, before it keeps a state for which older blocks may have to go.
  void note_names(SeqId id, Modelled& s) {
    for (std::size_t g = 0; g < layout_.groups.size(); ++g) {
      const auto table = kv_->block_table(id, static_cast<int>(g));
      for (std::int64_t block = s.committed; (block + 1) * block_tokens() <= s.computed; ++block) {
        const std::int32_t physical = table[static_cast<std::size_t>(block)];
        if (physical < 0) continue;
        const Tokens prefix(s.tokens.begin(), s.tokens.begin() + (block + 1) * block_tokens());
        index_.try_emplace({g, s.salt, prefix}, physical);
      }
    }
    s.committed = s.computed / block_tokens();
  }

  std::uint32_t held(SeqId id) const {
    auto count = static_cast<std::uint32_t>(kv_->state_blocks(id).size());
    for (std::size_t g = 0; g < layout_.groups.size(); ++g) {
      for (const std::int32_t block : kv_->block_table(id, static_cast<int>(g))) count += block >= 0;
    }
    return count;
  }

  void discard(std::uint32_t block) {
    std::fill_n(slots_.begin() + static_cast<std::ptrdiff_t>(block * block_tokens()), block_tokens(), kPoison);
    std::erase_if(index_, [block](const auto& entry) { return entry.second == static_cast<std::int32_t>(block); });
  }

 public:
  static inline int restored = 0;  // sequences that began with a state

 private:
  std::mt19937 random_;
  KvLayout layout_;
  bool has_index_ = true;
  std::vector<std::uint64_t> slots_;  // by block * block_tokens + offset
  std::map<std::tuple<std::size_t, std::string, Tokens>, std::int32_t> index_;
  std::map<SeqId, Modelled> sequences_;
  std::uint64_t next_id_ = 0;
  std::unique_ptr<KvManager> kv_;
};

TEST(KvManagerProperty, EverySlotHoldsWhatItsReaderExpects) {
  for (std::uint32_t seed = 0; seed < 1500; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    World world(seed);
    for (int step = 0; step < 200 && !testing::Test::HasFatalFailure(); ++step) world.step();
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(World::restored, 150) << "states were hardly ever taken up";
}

}  // namespace
}  // namespace weir::kv
