// Oracles: git hash-object and sha256sum.
#include "hub/digest.h"

#include <gtest/gtest.h>

namespace weir::hub {
namespace {

std::string digest(std::size_t digits, std::string_view text, std::size_t piece) {
  Digest out(std::string(digits, '0'), static_cast<std::int64_t>(text.size()));
  for (std::size_t i = 0; i < text.size(); i += piece) out.add(std::as_bytes(std::span(text.substr(i, piece))));
  return out.id();
}

TEST(Digest, IsGitsBlobIdOrSha256HoweverItIsCut) {
  for (const std::size_t piece : {1, 3, 100}) {
    EXPECT_EQ("e69de29bb2d1d6434b8b29ae775ad8c2e48c5391", digest(40, "", piece));
    EXPECT_EQ("ce013625030ba8dba906f756967f9e9ca394464a", digest(40, "hello\n", piece));
    EXPECT_EQ("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", digest(64, "", piece));
    EXPECT_EQ("5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03", digest(64, "hello\n", piece));
  }
}

TEST(Digest, IdsAreLowerCaseHexadecimalOfTheTwoLengths) {
  EXPECT_TRUE(is_content_id(std::string(40, 'a')));
  EXPECT_TRUE(is_content_id(std::string(64, '0')));
  for (const std::string& id : {std::string(), std::string(41, 'a'), std::string(40, 'A'), std::string(64, 'g'),
                                "../" + std::string(37, 'a'), std::string(32, 'a')}) {
    EXPECT_FALSE(is_content_id(id)) << id;
  }
}

}  // namespace
}  // namespace weir::hub
