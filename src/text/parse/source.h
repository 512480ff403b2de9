// Source: the text of a reply as it comes, for a grammar to read byte by byte, with look-ahead.
//
// Bytes go through three stages: ahead (not taken yet), taken but not settled, settled (gone). Until a grammar settles
// what it has taken, that can still be given back as plain text: nothing of a reply is lost when it turns out not to be
// what it looked like.
#pragma once

#include <coroutine>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/parse/task.h"

namespace weir::text::parse {

constexpr std::string_view kSpace = " \t\r\n";

inline bool is_space(char c) {
  return kSpace.find(c) != std::string_view::npos;
}

// Without `what` at both ends.
inline std::string_view trim(std::string_view text, std::string_view what = kSpace) {
  const auto begin = text.find_first_not_of(what);
  return begin == std::string_view::npos ? "" : text.substr(begin, text.find_last_not_of(what) - begin + 1);
}

class Source {
 public:
  Source() = default;
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  // For the owner of the grammar. `hidden`: these bytes are a control token that users do not see.
  void feed(std::string_view text, bool hidden);
  void end();

  // Waits until the byte `at` places ahead is there: co_await gives whether it is; false: the text ends before it.
  auto has(std::size_t at = 0) {
    struct Wait {
      Source& source;
      std::size_t at;
      bool await_ready() const { return source.next_ + at < source.bytes_.size() || source.ended_; }
      void await_suspend(std::coroutine_handle<> handle) {
        source.waiting_ = handle;
        source.wanted_ = at;
      }
      bool await_resume() const { return source.next_ + at < source.bytes_.size(); }
    };
    return Wait{*this, at};
  }
  // After a has() that gave true.
  char peek(std::size_t at = 0) const { return bytes_[next_ + at]; }
  bool hidden() const { return hidden_[next_] != 0; }
  char take() { return bytes_[next_++]; }
  void drop(std::size_t n) { next_ += n; }

  // What has been taken will not be given back, but for what record() wants.
  void settle() {
    if (record_ != nullptr) return give_back(*record_);
    settled_ = next_;
  }
  // From now on everything that is settled is appended to `text`, but for the hidden bytes; nullptr: no longer.
  void record(std::string* text) { record_ = text; }
  // Settles what has been taken and appends it to `out`, but for the hidden bytes.
  void give_back(std::string& out);
  bool unsettled() const { return settled_ != next_; }

 private:
  void go_on();

  std::string bytes_, hidden_;  // hidden_: one flag per byte
  std::size_t settled_ = 0, next_ = 0;
  std::coroutine_handle<> waiting_;
  std::size_t wanted_ = 0;
  bool ended_ = false;
  std::string* record_ = nullptr;
};

// Some strings of which none begins another, so that at any place of a text at most one of them stands.
class Markers {
 public:
  Markers() = default;
  explicit Markers(std::vector<std::string> texts);

  bool may_begin(char c) const { return first_[static_cast<unsigned char>(c)]; }
  const std::vector<std::string>& texts() const { return texts_; }

 private:
  std::vector<std::string> texts_;
  std::vector<bool> first_ = std::vector<bool>(256);
};

// The index of the marker that stands at the next byte, not taken yet; -1: none.
Task<int> marker_ahead(Source& in, const Markers& markers);
// Takes `text` if it comes next.
Task<bool> take_text(Source& in, std::string_view text);
// Takes white space. Gives whether anything comes after it.
Task<bool> skip_space(Source& in);
// Takes the text before the next of `ends`, which is left; none within kMaxNameBytes or before the end: nullopt, with
// some of the text taken.
Task<std::optional<std::string>> take_name(Source& in, const Markers& ends);

// Names of functions and parameters are short. Bounds what is held back in the hope of one.
constexpr std::size_t kMaxNameBytes = 256;

}  // namespace weir::text::parse
