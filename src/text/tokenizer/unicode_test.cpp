#include "text/tokenizer/unicode.h"

#include <gtest/gtest.h>

#include "text/tokenizer/normal_form.h"

namespace weir::text {
namespace {

TEST(Unicode, DecodesOnlyWellFormedSequences) {
  EXPECT_EQ(char_at("a", 0).code, U'a');
  EXPECT_EQ(char_at("é", 0).code, U'\u00e9');
  EXPECT_EQ(char_at("水", 0).size, 3u);
  EXPECT_EQ(char_at("\U0010FFFF", 0).code, char32_t{0x10FFFF});
  for (const char* bad : {"\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80",
                          "\xF5", "\xE6\xB0"}) {
    EXPECT_EQ(char_at(bad, 0).code, kInvalidChar) << bad;
    EXPECT_EQ(char_at(bad, 0).size, 1u);
  }
}

TEST(Unicode, EncodesWhatItDecodes) {
  for (char32_t code = 1; code < kInvalidChar; code += code < 0x3000 ? 1 : 97) {
    if (code >= 0xD800 && code < 0xE000) continue;
    std::string text;
    append_utf8(text, code);
    EXPECT_EQ(char_at(text, 0).code, code);
    EXPECT_EQ(previous_char("x" + text, text.size() + 1), 1u);
  }
}

TEST(Unicode, KnowsTheCategoriesOfUnicode16) {
  using namespace char_class;
  EXPECT_EQ(class_of('A'), kUpper);
  EXPECT_EQ(class_of(0x1C89), kUpper);    // new in 16
  EXPECT_EQ(class_of(0x10D4E), bit(Lm));  // new in 16
  EXPECT_EQ(class_of(0x88F), bit(Cn));    // a letter only since 17
  EXPECT_EQ(class_of(' '), bit(Zs) | kSpace);
  EXPECT_EQ(class_of('\n'), bit(Cc) | kSpace);
  EXPECT_EQ(class_of(0x200B), bit(Cf));
  EXPECT_EQ(class_of(kInvalidChar), 0u);
  int spaces = 0;
  for (char32_t code = 0; code < kInvalidChar; ++code) spaces += (class_of(code) & kSpace) != 0;
  EXPECT_EQ(spaces, 25);
}

TEST(NormalForm, ComposesAndDecomposes) {
  const auto nfc = [](std::string_view text) { return normalize(text, NormalForm::kNfc); };
  const auto nfd = [](std::string_view text) { return normalize(text, NormalForm::kNfd); };
  EXPECT_EQ(nfc("e\u0301"), "é");
  EXPECT_EQ(nfd("é"), "e\u0301");
  EXPECT_EQ(nfc("a\u0301\u0323"), "\u1ea1\u0301");  // marks are put in order first
  EXPECT_EQ(nfc("\u212b\u2126"), "\u00c5\u03a9");   // singletons
  EXPECT_EQ(nfc("\u0958"), "\u0915\u093c");         // excluded from composition
  EXPECT_EQ(nfc("\u1100\u1161\u11a8"), "\uac01");   // Hangul
  EXPECT_EQ(nfc("\uac00\u11a8"), "\uac01");
  EXPECT_EQ(nfd("\uac01"), "\u1100\u1161\u11a8");
  EXPECT_EQ(nfc("\u1e9b\u0323"), "\u1e9b\u0323");
  EXPECT_EQ(nfd("\u1e9b\u0323"), "\u017f\u0323\u0307");
  EXPECT_EQ(nfc("\U00016d67\U00016d67"), "\U00016d68");  // new in 16
  EXPECT_EQ(nfc("e\xFF\u0301"), "e\xFF\u0301");          // not across what is no UTF-8
  EXPECT_EQ(nfc("xe\u0301y plain e\u0301"), "xéy plain é");
  EXPECT_EQ(normalize("ﬁ①", NormalForm::kNfkc), "fi1");
}

TEST(NormalForm, IsStableAndAgreesWithTheQuickTest) {
  std::string all;
  for (char32_t code = 0; code < 0x20000; ++code) {
    if (code >= 0xD800 && code < 0xE000) continue;
    std::string text = "e";
    append_utf8(text, code);
    const std::string nfc = normalize(text, NormalForm::kNfc), nfd = normalize(text, NormalForm::kNfd);
    EXPECT_EQ(normalize(nfd, NormalForm::kNfc), nfc) << std::hex << static_cast<unsigned>(code);
    EXPECT_EQ(normalize(nfc, NormalForm::kNfd), nfd) << std::hex << static_cast<unsigned>(code);
    if (surely_nfc(text)) {
      EXPECT_EQ(nfc, text) << std::hex << static_cast<unsigned>(code);
    }
    all += nfc;
  }
  EXPECT_EQ(normalize(all, NormalForm::kNfc), all);
}

TEST(NormalForm, SortsALongRunOfMarksQuickly) {
  std::string text = "a";
  for (int i = 0; i < 100000; ++i) text += i % 2 == 0 ? "\u0301" : "\u0323";
  EXPECT_EQ(normalize(text, NormalForm::kNfc).substr(0, 3), "\u1ea1");
}

}  // namespace
}  // namespace weir::text
