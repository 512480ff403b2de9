// Operations of Python's str on Texts. All keep the marks of the caller's bytes; `budget` pays for what they read and
// make.
#pragma once

#include <cstdint>
#include <vector>

#include "text/jinja/budget.h"
#include "text/jinja/text.h"

namespace weir::text::jinja {

enum class Side { kLeft, kRight, kBoth };

Text upper(const Text& text, Budget& budget);
Text lower(const Text& text, Budget& budget);
Text capitalize(const Text& text, Budget& budget);
Text title(const Text& text, Budget& budget);  // str.title; the filter differs
Text swap_case(const Text& text, Budget& budget);

// Without `chars`: white space.
Text strip(const Text& text, const Text* chars, Side side, Budget& budget);
// At most `limit` replacements, negative: all.
Text replace(const Text& text, const Text& from, const Text& to, std::int64_t limit, Budget& budget);
// Without `separator`: at runs of white space, none at the ends. At most `limit` cuts, negative: all.
std::vector<Text> split(const Text& text, const Text* separator, std::int64_t limit, bool from_right, Budget& budget);
std::vector<Text> split_lines(const Text& text, bool keep_ends, Budget& budget);
Text expand_tabs(const Text& text, std::int64_t size, Budget& budget);

// `count` times `fill`, marked as `fill` is.
void append_padding(TextBuilder& out, const Text& fill, std::size_t count, Budget& budget);

// str.isupper and str.islower: there is a letter with a case, and all of them have this one.
bool has_only_case(std::string_view bytes, bool upper_case);

// Byte position of `needle`, npos if it is not there. Linear time.
std::size_t find_first(std::string_view text, std::string_view needle, std::size_t from);
std::size_t find_last(std::string_view text, std::string_view needle);

}  // namespace weir::text::jinja
