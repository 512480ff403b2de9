#include "text/parse/output_parser.h"

#include <algorithm>

#include "text/parse/harmony.h"

namespace weir::text::parse {
namespace {

void add(std::vector<std::string>& to, const std::vector<std::string>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

// Of some formats the markers are sentences, which an answer may begin with.
bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// Replies of all formats but harmony: reasoning, then content with calls in it.
class Tagged {
 public:
  Tagged(Calls& calls, Delta*& out, const ReplySyntax& syntax)
      : calls_(calls),
        in_(calls.in),
        out_(out),
        syntax_(syntax),
        tools_(syntax.calls ? syntax.format->tools : nullptr) {
    std::vector<std::string> texts;
    if (tools_) add(texts, tools_->opens());
    tool_opens_ = texts.size();
    if (const auto& reasoning = syntax.format->reasoning) {
      add(texts, reasoning->opens);
      reasoning_opens_ = texts.size();
      add(texts, reasoning->answer_opens);
      answer_opens_ = texts.size();
      add(texts, reasoning->answer_closes);
      reasoning_ends_ = Markers(reasoning->closes);
      reasoning_begins_ = Markers(reasoning->opens);
    }
    content_marks_ = Markers(texts);
    if (tools_) tools_in_reasoning_ = Markers(tools_->ends_of_reasoning());
    begun_ = syntax.start.continued && !syntax.start.reasoning;
    skip_space_ = syntax.start.closed;
  }

  Task<bool> run() {
    if (syntax_.start.reasoning) co_await reasoning(!syntax_.start.continued);
    while (true) {
      const bool goes_on = co_await in_.has();
      if (!goes_on) break;
      const char c = in_.peek();
      const int mark = content_marks_.may_begin(c) ? co_await marker_ahead(in_, content_marks_) : -1;
      const bool marked = mark >= 0 && co_await take_mark(static_cast<std::size_t>(mark));
      if (marked) continue;
      // Without reasoning before it, a marker that ends reasoning says that there is none.
      const bool none = !begun_ && !is_letter(c) && reasoning_ends_.may_begin(c) && co_await end_of_no_reasoning();
      if (none) continue;
      const bool bare = tools_ && !begun_ && tools_->bare_starts().find(c) != std::string_view::npos;
      if (bare) {
        const bool called = co_await tools_->read(calls_, -1);
        after_calls(called);
      } else {
        plain();
      }
    }
    in_.give_back(out_->content);
    co_return true;
  }

 private:
  // One byte of content.
  void plain() {
    const bool hidden = in_.hidden();
    const bool space = is_space(in_.take());
    if (space && skip_space_) in_.settle();
    if (space) return;  // held back: it may stand before a marker
    skip_space_ = false;
    begun_ |= !hidden;
    in_.give_back(out_->content);
  }

  Task<bool> end_of_no_reasoning() {
    const int end = co_await marker_ahead(in_, reasoning_ends_);
    if (end < 0) co_return false;
    in_.drop(reasoning_ends_.texts()[static_cast<std::size_t>(end)].size());
    in_.settle();
    skip_space_ = true;
    co_return true;
  }

  // Takes a marker with what belongs to it. False: it is none here, and nothing has been taken.
  Task<bool> take_mark(std::size_t which) {
    const bool control = in_.hidden();
    const std::size_t size = content_marks_.texts()[which].size();
    if (which < tool_opens_) {
      in_.drop(size);
      const bool called = co_await tools_->read(calls_, static_cast<int>(which));
      after_calls(called);
      co_return true;
    }
    const bool opens = which < answer_opens_;
    // Written out in the middle of an answer it is what the answer is about. A control token is never that.
    const bool meant = control || (opens ? !begun_ : answer_open_);
    if (!meant) co_return false;
    in_.drop(size);
    in_.settle();
    skip_space_ = opens;
    if (which < reasoning_opens_) {
      co_await reasoning(true);
    } else {
      answer_open_ = opens;
    }
    co_return true;
  }

  void after_calls(bool called) {
    if (calls_.give_up()) {
      called = false;
      begun_ = true;
    }
    std::string rest;
    in_.give_back(rest);
    const bool space = std::all_of(rest.begin(), rest.end(), is_space);
    if (called && space) {
      skip_space_ = true;
      return;
    }
    out_->content += rest;
    begun_ |= !rest.empty();
    skip_space_ = false;
  }

  // The reasoning, with the marker that ends it. `fresh`: from its beginning.
  Task<bool> reasoning(bool fresh) {
    bool skip = fresh, ended = false;
    while (true) {
      const bool goes_on = !ended && co_await in_.has();
      if (!goes_on) break;
      const char c = in_.peek();
      const int end = reasoning_ends_.may_begin(c) ? co_await marker_ahead(in_, reasoning_ends_) : -1;
      if (end >= 0) {
        in_.drop(reasoning_ends_.texts()[static_cast<std::size_t>(end)].size());
        ended = true;
        continue;
      }
      // Models repeat the marker that the prompt has given them.
      const int again = skip && reasoning_begins_.may_begin(c) ? co_await marker_ahead(in_, reasoning_begins_) : -1;
      if (again >= 0) {
        in_.drop(reasoning_begins_.texts()[static_cast<std::size_t>(again)].size());
        in_.settle();
        continue;
      }
      const int tool = tools_in_reasoning_.may_begin(c) ? co_await marker_ahead(in_, tools_in_reasoning_) : -1;
      ended = tool >= 0;
      if (ended) continue;
      const bool space = is_space(in_.take());
      if (space && skip) in_.settle();
      if (space) continue;
      skip = false;
      in_.give_back(out_->reasoning);
    }
    if (ended) {
      in_.settle();
    } else {
      in_.give_back(out_->reasoning);
    }
    skip_space_ = true;
    co_return true;
  }

  Calls& calls_;
  Source& in_;
  Delta*& out_;
  const ReplySyntax& syntax_;
  NotationPtr tools_;
  Markers content_marks_, reasoning_begins_, reasoning_ends_, tools_in_reasoning_;
  // Of content_marks_, those below tool_opens_ open calls, below reasoning_opens_ reasoning, below answer_opens_ the
  // answer; the rest close the answer.
  std::size_t tool_opens_ = 0, reasoning_opens_ = 0, answer_opens_ = 0;
  bool begun_ = false;       // the content has begun
  bool skip_space_ = false;  // white space here belongs to a marker before it
  bool answer_open_ = false;
};

Task<bool> read_tagged(Calls& calls, Delta*& out, const ReplySyntax& syntax) {
  Tagged reader(calls, out, syntax);
  co_return co_await reader.run();
}

}  // namespace

class OutputParser::Impl {
 public:
  explicit Impl(std::shared_ptr<const ReplySyntax> syntax)
      : syntax_(std::move(syntax)),
        calls_(source_, syntax_->tools, syntax_->whole_calls),
        reply_(syntax_->format->harmony
                   ? read_harmony(calls_, out_, syntax_->start, syntax_->format->tools, syntax_->calls)
                   : read_tagged(calls_, out_, *syntax_)) {}

  void feed(std::string_view text, bool hidden, Delta& out) {
    into(out);
    source_.feed(text, hidden);
  }
  void finish(Delta& out, bool cut_off) {
    into(out);
    if (cut_off) calls_.cut_off();
    source_.end();
  }
  std::size_t calls() const { return calls_.count(); }

 private:
  void into(Delta& out) {
    out_ = &out;
    calls_.into(out);
  }

  std::shared_ptr<const ReplySyntax> syntax_;
  Source source_;
  Calls calls_;
  Delta* out_ = nullptr;
  Task<bool> reply_;  // last: it refers to the others
};

OutputParser::OutputParser(std::shared_ptr<const ReplySyntax> syntax)
    : impl_(std::make_unique<Impl>(std::move(syntax))) {}
OutputParser::~OutputParser() = default;
OutputParser::OutputParser(OutputParser&&) noexcept = default;
OutputParser& OutputParser::operator=(OutputParser&&) noexcept = default;

void OutputParser::feed(std::string_view text, bool hidden, Delta& out) {
  impl_->feed(text, hidden, out);
}

void OutputParser::finish(Delta& out, bool cut_off) {
  impl_->finish(out, cut_off);
}

std::size_t OutputParser::calls() const {
  return impl_->calls();
}

}  // namespace weir::text::parse
