#include "plan/markup.h"

#include <gtest/gtest.h>

namespace weir::plan {
namespace {

TEST(Markup, NothingOfATextBecomesMarkup) {
  EXPECT_EQ(escape_markup("<b title='x' id=\"y\">&amp;</b>"),
            "&lt;b title=&#39;x&#39; id=&quot;y&quot;&gt;&amp;amp;&lt;/b&gt;");
  EXPECT_EQ(escape_markup("two\nlines\tand \x1b[31m\x01"), "two\nlines\tand \\x1b[31m\\x01");
  EXPECT_EQ(escape_markup("cut \xe6\xb0 short\xff"), "cut \\xe6\\xb0 short\\xff");
  EXPECT_EQ(escape_markup("ä 水"), "ä 水");
}

}  // namespace
}  // namespace weir::plan
