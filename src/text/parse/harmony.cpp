#include "text/parse/harmony.h"

namespace weir::text::parse {
namespace {

// A header is a role, a channel and a recipient.
constexpr std::size_t kMaxHeaderBytes = 512;

const Markers& header_ends() {
  static const Markers ends({"<|message|>", "<|end|>", "<|return|>", "<|call|>"});
  return ends;
}

const Markers& message_ends() {
  static const Markers ends({"<|end|>", "<|return|>", "<|call|>", "<|start|>"});
  return ends;
}

struct Header {
  std::string channel, recipient;
};

std::string word_after(std::string_view text, std::string_view marker) {
  const auto at = text.find(marker);
  if (at == std::string_view::npos) return {};
  text.remove_prefix(at + marker.size());
  return std::string(text.substr(0, text.find_first_of(" \t\r\n<")));
}

Header parse_header(std::string_view text) {
  return {word_after(text, "<|channel|>"), word_after(text, "to=")};
}

class Reader {
 public:
  Reader(Calls& calls, Delta*& out, bool calls_allowed)
      : calls_(calls), in_(calls.in), out_(out), allowed_(calls_allowed) {}

  Task<bool> run(ReplyStart start) {
    std::string header = start.header;
    bool complete = start.in_message;
    while (true) {
      const bool goes_on = complete || co_await in_.has();
      if (!goes_on) break;
      if (!complete) complete = co_await take_header(header);
      if (!complete) {
        // No message begins here.
        in_.give_back(out_->content);
        if (co_await in_.has()) co_await text(&Delta::content);
      } else {
        co_await message(parse_header(header));
      }
      header.clear();
      complete = false;
    }
    co_return true;
  }

 private:
  Task<bool> take_header(std::string& header) {
    while (true) {
      const bool goes_on = header.size() <= kMaxHeaderBytes && co_await in_.has();
      if (!goes_on) break;
      if (header_ends().may_begin(in_.peek())) {
        const int end = co_await marker_ahead(in_, header_ends());
        if (end > 0) co_return false;
        if (end == 0) {
          in_.drop(header_ends().texts()[0].size());
          in_.settle();
          co_return true;
        }
      }
      header += in_.take();
    }
    co_return false;
  }

  Task<bool> message(Header header) {
    constexpr std::string_view kFunctions = "functions.";
    const bool function = header.recipient.starts_with(kFunctions) && header.recipient.size() > kFunctions.size();
    if (function && allowed_) {
      // Whether it worked or not: what still stands in the message is content.
      co_await call(header.recipient.substr(kFunctions.size()));
      calls_.give_up();
      co_return co_await text(&Delta::content);
    }
    const bool analysis = header.channel == "analysis" || (!header.recipient.empty() && !function);
    if (analysis && reasoned_) gap_ = true;
    reasoned_ |= analysis;
    co_return co_await text(analysis ? &Delta::reasoning : &Delta::content);
  }

  // A call's arguments. What follows them in the message is left.
  Task<bool> call(std::string name) {
    const bool more = co_await skip_space(in_);
    const int end = more ? co_await marker_ahead(in_, message_ends()) : 0;
    if (end >= 0) {
      calls_.begin(std::move(name));
      calls_.arguments("{}");
      co_return true;
    }
    const bool object = co_await object_ahead(in_);
    if (!object) co_return false;
    calls_.begin(std::move(name));
    const bool ok = co_await stream_object(calls_);
    if (!ok) co_return false;
    co_await skip_space(in_);
    in_.settle();
    co_return true;
  }

  // The text up to the end of the message, which it takes.
  Task<bool> text(std::string Delta::* to) {
    while (true) {
      const bool goes_on = co_await in_.has();
      if (!goes_on) break;
      if (message_ends().may_begin(in_.peek())) {
        const int end = co_await marker_ahead(in_, message_ends());
        if (end >= 0) {
          in_.give_back(out_->*to);
          in_.drop(message_ends().texts()[static_cast<std::size_t>(end)].size());
          in_.settle();
          co_return true;
        }
      }
      if (std::exchange(gap_, false)) out_->reasoning += '\n';
      in_.take();
      in_.give_back(out_->*to);
    }
    in_.give_back(out_->*to);
    co_return true;
  }

  Calls& calls_;
  Source& in_;
  Delta*& out_;
  bool allowed_;
  bool reasoned_ = false, gap_ = false;  // gap: the next reasoning is another message's
};

}  // namespace

std::vector<std::string> harmony_markers() {
  return {"<|start|>", "<|channel|>", "<|message|>", "<|constrain|>", "<|end|>", "<|return|>", "<|call|>"};
}

Task<bool> read_harmony(Calls& calls, Delta*& out, ReplyStart start, bool calls_allowed) {
  Reader reader(calls, out, calls_allowed);
  co_return co_await reader.run(std::move(start));
}

}  // namespace weir::text::parse
