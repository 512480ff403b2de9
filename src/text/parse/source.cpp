#include "text/parse/source.h"

#include "base/check.h"

namespace weir::text::parse {

void Source::feed(std::string_view text, bool hidden) {
  bytes_ += text;
  hidden_.append(text.size(), hidden ? '\1' : '\0');
  go_on();
  if (settled_ == bytes_.size() || settled_ > 4096) {
    bytes_.erase(0, settled_);
    hidden_.erase(0, settled_);
    next_ -= settled_;
    settled_ = 0;
  }
}

void Source::end() {
  ended_ = true;
  go_on();
}

void Source::go_on() {
  if (waiting_ && (ended_ || next_ + wanted_ < bytes_.size())) std::exchange(waiting_, nullptr).resume();
}

void Source::give_back(std::string& out) {
  for (; settled_ < next_; ++settled_) {
    if (hidden_[settled_] == 0) out.push_back(bytes_[settled_]);
  }
}

Markers::Markers(std::vector<std::string> texts) : texts_(std::move(texts)) {
  for (std::size_t i = 0; i < texts_.size(); ++i) {
    CHECK(!texts_[i].empty(), "marker {} is empty", i);
    first_[static_cast<unsigned char>(texts_[i].front())] = true;
    for (std::size_t k = 0; k < texts_.size(); ++k)
      CHECK(i == k || !texts_[i].starts_with(texts_[k]), "marker '{}' begins with '{}'", texts_[i], texts_[k]);
  }
}

Task<int> marker_ahead(Source& in, const Markers& markers) {
  if (!co_await in.has() || !markers.may_begin(in.peek())) co_return -1;
  std::vector<bool> out(markers.texts().size());
  for (std::size_t at = 0;; ++at) {
    if (!co_await in.has(at)) co_return -1;
    bool any = false;
    for (std::size_t i = 0; i < out.size(); ++i) {
      const std::string& text = markers.texts()[i];
      if (out[i]) continue;
      if (text[at] != in.peek(at)) {
        out[i] = true;
      } else if (at + 1 == text.size()) {
        co_return static_cast<int>(i);
      } else {
        any = true;
      }
    }
    if (!any) co_return -1;
  }
}

Task<bool> take_text(Source& in, std::string_view text) {
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (!co_await in.has(at) || in.peek(at) != text[at]) co_return false;
  }
  in.drop(text.size());
  co_return true;
}

Task<bool> skip_space(Source& in) {
  while (true) {
    const bool goes_on = co_await in.has();
    if (!goes_on) break;
    if (!is_space(in.peek())) co_return true;
    in.take();
  }
  co_return false;
}

Task<std::optional<std::string>> take_name(Source& in, const Markers& ends) {
  std::string name;
  while (true) {
    const bool goes_on = name.size() <= kMaxNameBytes && co_await in.has();
    if (!goes_on) break;
    if (ends.may_begin(in.peek())) {
      const int end = co_await marker_ahead(in, ends);
      if (end >= 0) co_return name;
    }
    name.push_back(in.take());
  }
  co_return std::nullopt;
}

}  // namespace weir::text::parse
