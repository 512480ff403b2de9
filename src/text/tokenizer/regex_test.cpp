// What the recorded tokenizers (golden_test.cpp) do not show of regular
// expressions: refusals, and that work stays linear. That they match what Oniguruma matches is in
// tests/golden/tokenizers/random-*.json.
#include "text/tokenizer/regex.h"

#include <gtest/gtest.h>

#include <string>

namespace weir::text {
namespace {

std::string matches(std::string_view pattern, std::string_view text) {
  const auto regex = Regex::compile(pattern);
  EXPECT_TRUE(regex) << regex.error().message;
  std::vector<Span> spans;
  regex->find_all(text, spans);
  std::string out;
  for (const Span& span : spans) out.append(text.substr(span.begin, span.end - span.begin)).append("|");
  return out;
}

// Expected values: Oniguruma 6.9 by way of the tokenizers library 0.23.3.
TEST(Regex, MeansWhatOnigurumaMeans) {
  EXPECT_EQ(matches("\\p{N}{1,3}+", "12345 6"),
            "12345|6|");                            // repeats; is not possessive
  EXPECT_EQ(matches("\\s+$", "a \nb  "), " |  |");  // '$' is the end of a line
  EXPECT_EQ(matches("a(?i)b|c", "aB C"),
            "aB|");  // the option holds for what follows in its group
  EXPECT_EQ(matches("(?<=\\p{L}|\\d\\d)-", "a- 1- 12-"), "-|-|");
  EXPECT_EQ(matches("(?>a+)ab", "aaab"), "");
  EXPECT_EQ(matches("(?:a|ab)(?:c|bcd)?", "abcd"), "abcd|");
  EXPECT_EQ(matches("[^(\\s|[.,!])]+", "a(b,c d"), "a|b|c|d|");
  EXPECT_EQ(matches("[a-z&&[^m-p]]+", "lmnop-az"), "l|az|");
  EXPECT_EQ(matches("(?i:'s)", "'s'S'\u017f"), "'s|'S|'\u017f|");
  EXPECT_EQ(matches("\\w+", "x\u00b2"), "x\u00b2|");
  EXPECT_EQ(matches("[\\w]+", "x\u00b2"), "x|");
}

TEST(Regex, EmptyMatchesCutToo) {
  const auto regex = Regex::compile("(?=(\\d{3})+(?!\\d))");
  ASSERT_TRUE(regex) << regex.error().message;
  std::vector<Span> spans;
  regex->find_all("1234567", spans);
  ASSERT_EQ(spans.size(), 2U);
  EXPECT_EQ(spans[0].begin, 1U);
  EXPECT_EQ(spans[1].begin, 4U);
}

TEST(Regex, WhatWeirDoesNotHaveIsRefusedByName) {
  const auto refused = [](std::string_view pattern, std::string_view why) {
    const auto regex = Regex::compile(pattern);
    ASSERT_FALSE(regex) << pattern;
    EXPECT_NE(regex.error().message.find(why), std::string::npos) << regex.error().message;
  };
  refused("(a)\\1", "reference back");
  refused("(?~a)", "absence");
  refused("(?<=a+)b", "no fixed length");
  refused("\\p{Nonsense}", "Nonsense");
  refused("(", "without its ')'");
  refused("a)", "without '('");
  refused("[", "without its ']'");
  refused("*", "repetition of nothing");
  refused("a{100001}", "too large");
  refused("(?:ab){9000}", "more steps");
  refused("(?:(?:){100000}){100000}", "more steps");
  refused("a" + std::string(60000, '*'), "more repetitions");
  refused(std::string(1000, '(') + std::string(1000, ')'), "nesting");
  refused(std::string(100000, 'a'), "bytes");
  refused("\xff", "UTF-8");
}

TEST(Regex, HostilePatternsTakeLinearTime) {
  const std::string run(131072, 'a');
  for (const char* pattern : {"(a+)+b", "(a|a)*b", "(?:a*)*b", "a*b|a", "a++b|a", "(?>a+)b|a", "(?>(?:a|aa)+)b|a",
                              "a(?=a*b)|a", "a(?!a*b)", "(?:a|aa)+$x", "(.*?,){20}x", "a{400}b", "(?<=a{200})b",
                              "(?:(?=a*b)a|a)+?b", ".*.*.*=.*", "\\s+$|a", "(?:a?){200}b"}) {
    const auto regex = Regex::compile(pattern);
    ASSERT_TRUE(regex) << regex.error().message;
    for (const std::string& text : {run, run + "b", std::string(131072, ' ') + "x"}) {
      std::vector<Span> spans;
      EXPECT_TRUE(regex->find_all(text, spans)) << pattern;
    }
  }
}

}  // namespace
}  // namespace weir::text
