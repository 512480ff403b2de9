#include "kv/hash_prefix_index.h"

#include <gtest/gtest.h>

#include <random>

namespace weir::kv {
namespace {

using Tokens = std::vector<TokenId>;

std::string hex(const BlockName& name) {
  std::string text;
  for (const std::uint8_t byte : name.bytes) text += fmt::format("{:02x}", byte);
  return text;
}

// Names are what other processes (tiers, other nodes) will know blocks by: they must not change unnoticed. Expected
// values are from Python: r = sha256(pack('<Q', len(model)) + model + pack('<Q', 4) + pack('<Q', len(salt)) + salt),
// then sha256(r + pack('<4i', ...)).
TEST(HashPrefixIndex, NamesAreStable) {
  HashPrefixIndex index("model", 4, 8);
  const BlockName root = index.root("");
  EXPECT_EQ(hex(root), "93c01e9265e83c3dba41442df3cec82d3ed8bd2c3e2b49a64671bc27d907d294");
  EXPECT_EQ(hex(index.child(root, Tokens{1, 2, 3, -1})),
            "884ea1cce35ddef501b9387d7e0092c2f23ef249670a4eca829c5a8fe1a5f0c4");
}

TEST(HashPrefixIndex, NamesTellEverythingApart) {
  HashPrefixIndex index("model", 2, 8);
  const BlockName root = index.root("");
  const BlockName a = index.child(root, Tokens{1, 2});
  EXPECT_EQ(a, index.child(index.root(""), Tokens{1, 2})) << "names are pure";
  EXPECT_NE(a, index.child(root, Tokens{2, 1}));
  EXPECT_NE(a, index.child(a, Tokens{1, 2})) << "the parent counts";
  EXPECT_NE(root, index.root("salt"));
  EXPECT_NE(root, HashPrefixIndex("other", 2, 8).root(""));
  EXPECT_NE(root, HashPrefixIndex("model", 4, 8).root(""));
  EXPECT_NE(HashPrefixIndex("ab", 2, 8).root("c"), HashPrefixIndex("a", 2, 8).root("bc"));
}

TEST(HashPrefixIndex, FindsByNameGroupAndTokens) {
  HashPrefixIndex index("model", 2, 4);
  const Tokens text = {7, 8};
  const BlockName name = index.child(index.root(""), text);
  EXPECT_TRUE(index.insert(BlockId{2}, name, 0, text));
  EXPECT_EQ(index.find(name, 0, text), BlockId{2});
  EXPECT_EQ(index.find(name, 1, text), std::nullopt) << "another group's block";
  EXPECT_EQ(index.find(name, 0, Tokens{7, 9}), std::nullopt) << "equal names, other tokens: a collision must not hit";

  EXPECT_FALSE(index.insert(BlockId{3}, name, 0, text)) << "the first stays the canonical one";
  EXPECT_FALSE(index.contains(BlockId{3}));
  EXPECT_TRUE(index.insert(BlockId{3}, name, 1, text));
  EXPECT_EQ(index.size(), 2u);

  EXPECT_EQ(index.find(name, 4, text), std::nullopt) << "a group that shares a bucket with group 0";

  index.erase(BlockId{2});
  EXPECT_EQ(index.find(name, 0, text), std::nullopt);
  EXPECT_EQ(index.find(name, 1, text), BlockId{3});
  index.check_integrity();
}

TEST(HashPrefixIndex, SurvivesRandomInsertionsAndErasures) {
  std::mt19937 random(1);
  HashPrefixIndex index("model", 1, 16);
  const BlockName root = index.root("");
  std::vector<int> held(16, -1);  // by block: the token it holds
  for (int step = 0; step < 20000; ++step) {
    const std::uint32_t block = random() % 16;
    if (held[block] >= 0) {
      index.erase(BlockId{block});
      held[block] = -1;
    } else {
      const int token = static_cast<int>(random() % 24);
      const bool is_new = std::find(held.begin(), held.end(), token) == held.end();
      ASSERT_EQ(index.insert(BlockId{block}, index.child(root, Tokens{token}), 0, Tokens{token}), is_new);
      if (is_new) held[block] = token;
    }
    for (int token = 0; token < 24; ++token) {
      const auto it = std::find(held.begin(), held.end(), token);
      const auto found = index.find(index.child(root, Tokens{token}), 0, Tokens{token});
      ASSERT_EQ(found.has_value(), it != held.end());
      if (found) {
        ASSERT_EQ(value(*found), it - held.begin());
      }
    }
    if (step % 64 == 0) index.check_integrity();
  }
}

TEST(PrefixIndexFlag, RefusesWhatThisBuildDoesNotHave) {
  EXPECT_EQ(parse_prefix_index("hash").value(), PrefixIndexKind::kHash);
  const auto radix = parse_prefix_index("radix");
  ASSERT_FALSE(radix.has_value());
  EXPECT_EQ(radix.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(radix.error().message.find("--prefix-index hash"), std::string::npos) << radix.error().message;
  EXPECT_EQ(parse_prefix_index("tree").error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace weir::kv
