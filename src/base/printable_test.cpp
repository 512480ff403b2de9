#include "base/printable.h"

#include <gtest/gtest.h>

namespace weir {
namespace {

TEST(Printable, leaves_text_of_every_language_as_it_is) {
  for (const std::string_view text : {"", "plain", "a\\b \"c\"", "d\u00E9j\u00E0 vu \u6771\u4EAC \U0001F600"})
    EXPECT_EQ(printable(text), text);
}

TEST(Printable, escapes_what_could_forge_a_line_or_steer_a_terminal) {
  EXPECT_EQ(printable("x\nFORGED\x1b[31m\r\t"), "x\\nFORGED\\x1b[31m\\r\\t");
  EXPECT_EQ(printable(std::string_view("a\0b\x7f", 4)), "a\\x00b\\x7f");
  EXPECT_EQ(printable("\u009B31m"), "\\xc2\\x9b31m");  // C1: the one-character form of ESC [
  EXPECT_EQ(printable("\u2028\u202Egpj"), "\\xe2\\x80\\xa8\\xe2\\x80\\xaegpj");
  EXPECT_EQ(printable("\u2066\u200F"), "\\xe2\\x81\\xa6\\xe2\\x80\\x8f");
}

TEST(Printable, escapes_bytes_that_are_no_utf8) {
  EXPECT_EQ(printable("\x9b[31m"), "\\x9b[31m");
  EXPECT_EQ(printable("\xC0\x9B"), "\\xc0\\x9b");           // longer than needed
  EXPECT_EQ(printable("\xED\xA0\x80"), "\\xed\\xa0\\x80");  // a surrogate
  EXPECT_EQ(printable("\xF4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
  EXPECT_EQ(printable("ok\xE6\x9D"), "ok\\xe6\\x9d");  // cut short
}

TEST(Printable, keeps_what_it_is_told_to_keep) {
  EXPECT_EQ(printable("a\nb\tc\x1b", "\n\t"), "a\nb\tc\\x1b");
}

}  // namespace
}  // namespace weir
