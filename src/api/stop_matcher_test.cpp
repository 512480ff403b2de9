#include "api/stop_matcher.h"

#include <gtest/gtest.h>

#include <random>

namespace weir::api {
namespace {

// Longest end of `text` that begins a stop string and is not all of it.
std::size_t expected_hold(const std::string& text, const std::vector<std::string>& stops) {
  std::size_t best = 0;
  for (const auto& stop : stops) {
    for (std::size_t n = 1; n <= std::min(stop.size(), text.size()); ++n) {
      if (text.ends_with(stop.substr(0, n))) best = std::max(best, n);
    }
  }
  return best;
}

TEST(StopMatcher, agrees_with_a_plain_search_for_every_split_of_random_texts) {
  std::mt19937 random(1);
  const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::string> stops;
    for (int i = 0, n = 1 + pick(4); i < n; ++i) {
      std::string stop;
      for (int k = 0, length = 1 + pick(5); k < length; ++k) stop += static_cast<char>('a' + pick(2));
      stops.push_back(stop);
    }
    std::string text;
    for (int k = 0, length = pick(20); k < length; ++k) text += static_cast<char>('a' + pick(3));

    const StopMatcher matcher(stops);
    StopMatcher::Scan scan(matcher);
    std::string seen;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t length = std::min<std::size_t>(1 + static_cast<std::size_t>(pick(4)), text.size() - at);
      const auto match = scan.feed(std::string_view(text).substr(at, length));
      seen += text.substr(at, length);
      at += length;
      std::size_t begin = std::string::npos;
      for (const auto& stop : stops) begin = std::min(begin, seen.find(stop));
      ASSERT_EQ(match.has_value(), begin != std::string::npos) << seen;
      if (match) {
        ASSERT_EQ(match->begin, begin) << seen;
        ASSERT_EQ(seen.substr(match->begin, match->end - match->begin), stops[static_cast<std::size_t>(match->index)]);
        break;
      }
      ASSERT_EQ(scan.held_back(), expected_hold(seen, stops)) << seen;
    }
  }
}

TEST(StopMatcher, names_the_first_of_equal_strings) {
  const StopMatcher matcher({"x", "x"});
  StopMatcher::Scan scan(matcher);
  EXPECT_EQ(scan.feed("x")->index, 0);
}

TEST(StopMatcher, prefers_the_shorter_of_two_that_begin_together) {
  const StopMatcher matcher({"abcd", "ab"});
  StopMatcher::Scan scan(matcher);
  const auto match = scan.feed("xabcd");
  ASSERT_TRUE(match);
  EXPECT_EQ(match->index, 1);
  EXPECT_EQ(match->begin, 1u);
  EXPECT_EQ(match->end, 3u);
}

}  // namespace
}  // namespace weir::api
