#include "text/jinja/text.h"

#include <algorithm>
#include <utility>

#include "text/jinja/unicode.h"

namespace weir::text::jinja {

Text::Text(std::string bytes, bool user) : bytes_(std::move(bytes)), chars_(count_chars(bytes_)) {
  if (user && !bytes_.empty()) user_.push_back({0, bytes_.size()});
}

Text::Text(std::string bytes, std::vector<ByteRange> user)
    : bytes_(std::move(bytes)), user_(std::move(user)), chars_(count_chars(bytes_)) {}

void TextBuilder::mark(std::size_t begin, std::size_t end) {
  if (begin == end) return;
  if (!user_.empty() && user_.back().end == begin) {
    user_.back().end = end;
  } else {
    user_.push_back({begin, end});
  }
}

void TextBuilder::append(std::string_view bytes, bool user) {
  const std::size_t begin = bytes_.size();
  bytes_ += bytes;
  if (user) mark(begin, bytes_.size());
}

void TextBuilder::append(const Text& text, std::size_t begin, std::size_t end) {
  if (begin >= end) return;
  const std::size_t at = bytes_.size();
  bytes_.append(text.bytes(), begin, end - begin);
  const auto& ranges = text.user();
  auto range = std::lower_bound(ranges.begin(), ranges.end(), begin,
                                [](const ByteRange& r, std::size_t byte) { return r.end <= byte; });
  for (; range != ranges.end() && range->begin < end; ++range)
    mark(at + std::max(range->begin, begin) - begin, at + std::min(range->end, end) - begin);
}

void TextBuilder::append_char(char32_t c, bool user) {
  const std::size_t begin = bytes_.size();
  jinja::append_char(bytes_, c);
  if (user) mark(begin, bytes_.size());
}

Text TextBuilder::take() {
  Text text(std::move(bytes_), std::move(user_));
  bytes_.clear();
  user_.clear();
  return text;
}

Text slice(const Text& text, std::size_t begin, std::size_t end) {
  TextBuilder out;
  out.append(text, begin, end);
  return out.take();
}

}  // namespace weir::text::jinja
