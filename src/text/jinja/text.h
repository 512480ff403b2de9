// Text: a string of the template language, which knows for each byte whether it came from the caller's data.
//
// Control tokens are recognised only in bytes that the template itself wrote, so every operation on strings keeps this
// mark: operations that move bytes (slices, strip, split, join, replace, +) carry the marks along; whatever rewrites
// text marks its result as the caller's if any part of its input was.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace weir::text::jinja {

class Text;
using TextPtr = std::shared_ptr<const Text>;

// Immutable, valid UTF-8.
class Text {
 public:
  Text() = default;
  Text(std::string bytes, bool user);
  Text(std::string bytes, std::vector<ByteRange> user);

  const std::string& bytes() const { return bytes_; }
  std::size_t size() const { return bytes_.size(); }
  std::size_t chars() const { return chars_; }
  bool is_ascii() const { return chars_ == bytes_.size(); }
  const std::vector<ByteRange>& user() const { return user_; }  // sorted, disjoint
  bool has_user() const { return !user_.empty(); }

 private:
  std::string bytes_;
  std::vector<ByteRange> user_;
  std::size_t chars_ = 0;
};

class TextBuilder {
 public:
  void append(std::string_view bytes, bool user);
  void append(const Text& text) { append(text, 0, text.size()); }
  void append(const Text& text, std::size_t begin, std::size_t end);
  void append_char(char32_t c, bool user);

  std::size_t size() const { return bytes_.size(); }
  std::string_view bytes() const { return bytes_; }
  bool has_user() const { return !user_.empty(); }
  void reserve(std::size_t bytes) { bytes_.reserve(bytes); }
  Text take();

 private:
  void mark(std::size_t begin, std::size_t end);

  std::string bytes_;
  std::vector<ByteRange> user_;
};

// Walks through the user ranges of a text from left to right: in constant time per step, is this byte the caller's?
class UserCursor {
 public:
  explicit UserCursor(const Text& text) : ranges_(text.user()) {}
  bool at(std::size_t byte) {
    while (next_ < ranges_.size() && ranges_[next_].end <= byte) ++next_;
    return next_ < ranges_.size() && ranges_[next_].begin <= byte;
  }

 private:
  const std::vector<ByteRange>& ranges_;
  std::size_t next_ = 0;
};

Text slice(const Text& text, std::size_t begin, std::size_t end);

}  // namespace weir::text::jinja
