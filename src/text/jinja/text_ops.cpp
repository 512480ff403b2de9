#include "text/jinja/text_ops.h"

#include <algorithm>
#include <cstring>
#include <unordered_set>

#include "text/jinja/unicode.h"

namespace weir::text::jinja {

namespace {

std::size_t size_at(std::string_view bytes, std::size_t at) {
  return char_size(static_cast<unsigned char>(bytes[at]));
}

std::size_t char_before(std::string_view bytes, std::size_t end) {
  do --end;
  while (end > 0 && is_continuation(static_cast<unsigned char>(bytes[end])));
  return end;
}

// Every character replaced by what `change(bytes, at)` makes of it.
template <class Change>
Text map_chars(const Text& text, Budget& budget, Change change) {
  budget.text(text.size());
  budget.step(text.size() / 8);
  TextBuilder out;
  out.reserve(text.size());
  UserCursor user(text);
  const std::string& bytes = text.bytes();
  for (std::size_t at = 0; at < bytes.size(); at += size_at(bytes, at)) {
    const bool mine = user.at(at);
    for (const char32_t c : change(bytes, at)) out.append_char(c, mine);
  }
  return out.take();
}

bool is_cased_letter(char32_t c) {
  return is_upper(c) || is_lower(c) || is_title(c);
}

}  // namespace

Text upper(const Text& text, Budget& budget) {
  return map_chars(text, budget,
                   [](std::string_view bytes, std::size_t at) { return upper_of(decode_char(bytes, at)); });
}

Text lower(const Text& text, Budget& budget) {
  return map_chars(text, budget, lower_at);
}

Text capitalize(const Text& text, Budget& budget) {
  return map_chars(text, budget, [](std::string_view bytes, std::size_t at) {
    return at == 0 ? title_of(decode_char(bytes, at)) : lower_at(bytes, at);
  });
}

Text title(const Text& text, Budget& budget) {
  bool inside_word = false;
  return map_chars(text, budget, [&inside_word](std::string_view bytes, std::size_t at) {
    const char32_t c = decode_char(bytes, at);
    auto changed = inside_word ? lower_at(bytes, at) : title_of(c);
    inside_word = is_cased_letter(c);
    return changed;
  });
}

Text swap_case(const Text& text, Budget& budget) {
  return map_chars(text, budget, [](std::string_view bytes, std::size_t at) {
    const char32_t c = decode_char(bytes, at);
    return is_upper(c) ? lower_at(bytes, at) : is_lower(c) ? upper_of(c) : std::u32string(1, c);
  });
}

Text strip(const Text& text, const Text* chars, Side side, Budget& budget) {
  std::unordered_set<char32_t> set;
  if (chars != nullptr)
    for (std::size_t at = 0; at < chars->size(); at += size_at(chars->bytes(), at))
      set.insert(decode_char(chars->bytes(), at));
  const auto goes = [&](char32_t c) { return chars == nullptr ? is_space(c) : set.contains(c); };
  const std::string& bytes = text.bytes();
  std::size_t begin = 0, end = bytes.size();
  if (side != Side::kRight)
    while (begin < end && goes(decode_char(bytes, begin))) begin += size_at(bytes, begin);
  if (side != Side::kLeft) {
    while (end > begin) {
      const std::size_t last = char_before(bytes, end);
      if (!goes(decode_char(bytes, last))) break;
      end = last;
    }
  }
  budget.text(end - begin);
  return slice(text, begin, end);
}

bool has_only_case(std::string_view bytes, bool upper_case) {
  bool found = false;
  for (std::size_t at = 0; at < bytes.size(); at += size_at(bytes, at)) {
    const char32_t c = decode_char(bytes, at);
    if (is_title(c) || (upper_case ? is_lower(c) : is_upper(c))) return false;
    found = found || is_upper(c) || is_lower(c);
  }
  return found;
}

std::size_t find_first(std::string_view text, std::string_view needle, std::size_t from) {
  if (from > text.size()) return std::string_view::npos;
  if (needle.empty()) return from;
  const void* found = memmem(text.data() + from, text.size() - from, needle.data(), needle.size());
  if (found == nullptr) return std::string_view::npos;
  return static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
}

std::size_t find_last(std::string_view text, std::string_view needle) {
  if (needle.empty()) return text.size();
  // Reversed, the last occurrence is the first one, and memmem stays linear.
  const std::string backwards(text.rbegin(), text.rend()), reversed(needle.rbegin(), needle.rend());
  const std::size_t found = find_first(backwards, reversed, 0);
  return found == std::string_view::npos ? found : text.size() - found - needle.size();
}

Text replace(const Text& text, const Text& from, const Text& to, std::int64_t limit, Budget& budget) {
  const std::string& bytes = text.bytes();
  budget.scan(bytes.size());
  TextBuilder out;
  std::size_t done = 0, count = 0;
  const auto at_limit = [&] { return limit >= 0 && count >= static_cast<std::size_t>(limit); };
  const auto insert = [&] {
    out.append(to);
    ++count;
    budget.step();
    budget.limit(out.size());
  };
  if (from.size() == 0) {
    // Between all characters and at both ends.
    while (!at_limit()) {
      insert();
      if (done >= bytes.size()) break;
      const std::size_t end = done + size_at(bytes, done);
      out.append(text, done, end);
      done = end;
    }
  } else {
    while (!at_limit()) {
      const std::size_t found = find_first(bytes, from.bytes(), done);
      if (found == std::string_view::npos) break;
      out.append(text, done, found);
      insert();
      done = found + from.size();
    }
  }
  out.append(text, done, bytes.size());
  budget.text(out.size());
  return out.take();
}

namespace {

class Splitter {
 public:
  Splitter(const Text& text, std::int64_t limit, Budget& budget)
      : text_(text),
        bytes_(text.bytes()),
        left_(limit < 0 ? kMaxItems : static_cast<std::size_t>(limit)),
        budget_(budget) {}

  std::vector<Text> forwards(std::string_view separator) {
    std::size_t done = 0;
    for (; left_ > 0; --left_) {
      const std::size_t found = find_first(bytes_, separator, done);
      if (found == std::string_view::npos) break;
      piece(done, found);
      done = found + separator.size();
    }
    piece(done, bytes_.size());
    return std::move(pieces_);
  }

  std::vector<Text> backwards(std::string_view separator) {
    // Occurrences must be taken from the right: "aaa".rsplit("aa") is ["a", ""].
    const std::string reversed_text(bytes_.rbegin(), bytes_.rend());
    const std::string reversed(separator.rbegin(), separator.rend());
    std::size_t done = 0;
    const std::size_t size = bytes_.size();
    for (; left_ > 0; --left_) {
      const std::size_t found = find_first(reversed_text, reversed, done);
      if (found == std::string_view::npos) break;
      piece(size - found, size - done);
      done = found + separator.size();
    }
    piece(0, size - done);
    std::reverse(pieces_.begin(), pieces_.end());
    return std::move(pieces_);
  }

  std::vector<Text> at_space_forwards() {
    std::size_t at = 0;
    while (true) {
      while (at < bytes_.size() && space_at(at)) at += size_at(bytes_, at);
      if (at >= bytes_.size()) break;
      const std::size_t begin = at;
      if (left_ == 0) {
        piece(begin, bytes_.size());
        break;
      }
      while (at < bytes_.size() && !space_at(at)) at += size_at(bytes_, at);
      piece(begin, at);
      --left_;
    }
    return std::move(pieces_);
  }

  std::vector<Text> at_space_backwards() {
    std::size_t end = bytes_.size();
    while (true) {
      while (end > 0 && space_at(char_before(bytes_, end))) end = char_before(bytes_, end);
      if (end == 0) break;
      if (left_ == 0) {
        piece(0, end);
        break;
      }
      std::size_t begin = end;
      while (begin > 0 && !space_at(char_before(bytes_, begin))) begin = char_before(bytes_, begin);
      piece(begin, end);
      end = begin;
      --left_;
    }
    std::reverse(pieces_.begin(), pieces_.end());
    return std::move(pieces_);
  }

 private:
  bool space_at(std::size_t at) const { return is_space(decode_char(bytes_, at)); }

  void piece(std::size_t begin, std::size_t end) {
    budget_.step();
    budget_.text(end - begin);
    if (pieces_.size() >= kMaxItems) budget_.items(pieces_.size() + 1);
    pieces_.push_back(slice(text_, begin, end));
  }

  const Text& text_;
  const std::string& bytes_;
  std::size_t left_;
  Budget& budget_;
  std::vector<Text> pieces_;
};

}  // namespace

std::vector<Text> split(const Text& text, const Text* separator, std::int64_t limit, bool from_right, Budget& budget) {
  budget.scan(text.size());
  Splitter splitter(text, limit, budget);
  if (separator == nullptr) return from_right ? splitter.at_space_backwards() : splitter.at_space_forwards();
  if (separator->size() == 0) raise("empty separator");
  return from_right ? splitter.backwards(separator->bytes()) : splitter.forwards(separator->bytes());
}

std::vector<Text> split_lines(const Text& text, bool keep_ends, Budget& budget) {
  const std::string& bytes = text.bytes();
  budget.scan(bytes.size() * 4);
  budget.text(bytes.size());
  std::vector<Text> lines;
  for (std::size_t begin = 0; begin < bytes.size();) {
    std::size_t end = begin;
    while (end < bytes.size() && !is_line_end(decode_char(bytes, end))) end += size_at(bytes, end);
    std::size_t next = end;
    if (next < bytes.size()) {
      const bool pair = bytes[next] == '\r' && next + 1 < bytes.size() && bytes[next + 1] == '\n';
      next += pair ? 2 : size_at(bytes, next);
    }
    budget.step();
    lines.push_back(slice(text, begin, keep_ends ? next : end));
    begin = next;
  }
  budget.items(lines.size());
  return lines;
}

Text expand_tabs(const Text& text, std::int64_t size, Budget& budget) {
  TextBuilder out;
  UserCursor user(text);
  const std::string& bytes = text.bytes();
  std::int64_t column = 0;
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t end = at + size_at(bytes, at);
    if (bytes[at] == '\t') {
      const std::int64_t spaces = size > 0 ? size - column % size : 0;
      budget.limit(out.size() + static_cast<std::size_t>(spaces));
      out.append(std::string(static_cast<std::size_t>(spaces), ' '), user.at(at));
      column += spaces;
    } else {
      out.append(text, at, end);
      column = bytes[at] == '\n' || bytes[at] == '\r' ? 0 : column + 1;
    }
    at = end;
  }
  budget.text(out.size());
  return out.take();
}

void append_padding(TextBuilder& out, const Text& fill, std::size_t count, Budget& budget) {
  budget.limit(out.size() + std::min(count, kMaxTextBytes + 1) * fill.size());
  budget.scan(count * 8);
  for (std::size_t i = 0; i < count; ++i) out.append(fill);
}

}  // namespace weir::text::jinja
