#include "text/parse/harmony.h"

namespace weir::text::parse {
namespace {

// A header is a role, a channel and a recipient.
constexpr std::size_t kMaxHeaderBytes = 512;

// What ends a message, Muse Glimmer's and gpt-oss's.
const std::vector<std::string>& ends_of(bool recipients_only) {
  static const std::vector<std::string> muse = {"<|eom|>", "<|eot|>"}, harmony = {"<|end|>", "<|return|>", "<|call|>"};
  return recipients_only ? muse : harmony;
}

Markers with(std::string first, const std::vector<std::string>& more) {
  std::vector<std::string> all = {std::move(first)};
  all.insert(all.end(), more.begin(), more.end());
  return Markers(std::move(all));
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

// Models correct themselves in a header: of two channels the last counts. What goes to these two goes to nobody else.
Header parse_header(std::string_view text) {
  const auto channel = text.rfind("<|channel|>");
  Header header{channel == std::string_view::npos ? "" : word_after(text.substr(channel), "<|channel|>"),
                word_after(text, "to=")};
  if (header.recipient == "assistant" || header.recipient == "user") header.recipient.clear();
  return header;
}

class Reader {
 public:
  Reader(Calls& calls, Delta*& out, NotationPtr tools, bool calls_allowed)
      : calls_(calls),
        in_(calls.in),
        out_(out),
        tools_(std::move(tools)),
        allowed_(calls_allowed),
        header_ends_(with("<|message|>", ends_of(tools_ != nullptr))),
        message_ends_(with("<|start|>", ends_of(tools_ != nullptr))) {
    if (tools_) tool_opens_ = Markers(tools_->opens());
  }

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
      if (header_ends_.may_begin(in_.peek())) {
        const int end = co_await marker_ahead(in_, header_ends_);
        if (end > 0) co_return false;
        if (end == 0) {
          in_.drop(header_ends_.texts()[0].size());
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
    const bool prefixed = header.recipient.starts_with(kFunctions) && header.recipient.size() > kFunctions.size();
    const bool function = prefixed || calls_.schemas.has(header.recipient);
    const bool to_itself = header.recipient == "self", to_nobody = header.recipient.empty();
    if (tools_ && allowed_ && !to_itself) {
      co_await calls_in_message();
      co_return co_await text(&Delta::content);
    }
    if (!tools_ && function && allowed_) {
      // Whether it worked or not: what still stands in the message is content.
      if (prefixed) header.recipient.erase(0, kFunctions.size());
      co_await call(std::move(header.recipient));
      calls_.give_up();
      co_return co_await text(&Delta::content);
    }
    const bool analysis = tools_ ? to_itself : header.channel == "analysis" || (!to_nobody && !function);
    if (analysis && reasoned_) gap_ = true;
    reasoned_ |= analysis;
    co_return co_await text(analysis ? &Delta::reasoning : &Delta::content);
  }

  // Calls at the start of a message, in a notation of their own. What else stands in it is left.
  Task<bool> calls_in_message() {
    while (true) {
      const bool goes_on = co_await skip_space(in_);
      if (!goes_on) break;
      const int open = tool_opens_.may_begin(in_.peek()) ? co_await marker_ahead(in_, tool_opens_) : -1;
      if (open < 0) break;
      in_.drop(tool_opens_.texts()[static_cast<std::size_t>(open)].size());
      const bool ok = co_await tools_->read(calls_, open);
      const bool broken = calls_.give_up();
      if (!ok || broken) break;
      in_.settle();
    }
    co_return true;
  }

  // A call's arguments. What follows them in the message is left.
  Task<bool> call(std::string name) {
    const bool more = co_await skip_space(in_);
    const int end = more ? co_await marker_ahead(in_, message_ends_) : 0;
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
      if (message_ends_.may_begin(in_.peek())) {
        const int end = co_await marker_ahead(in_, message_ends_);
        if (end >= 0) {
          in_.give_back(out_->*to);
          in_.drop(message_ends_.texts()[static_cast<std::size_t>(end)].size());
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
  NotationPtr tools_;  // nullptr: harmony's own
  bool allowed_;
  Markers header_ends_, message_ends_, tool_opens_;
  bool reasoned_ = false, gap_ = false;  // gap: the next reasoning is another message's
};

}  // namespace

std::vector<std::string> harmony_markers() {
  return {"<|start|>",  "<|channel|>", "<|message|>", "<|constrain|>", "<|end|>",
          "<|return|>", "<|call|>",    "<|eom|>",     "<|eot|>"};
}

Task<bool> read_harmony(Calls& calls, Delta*& out, ReplyStart start, NotationPtr tools, bool calls_allowed) {
  Reader reader(calls, out, std::move(tools), calls_allowed);
  co_return co_await reader.run(std::move(start));
}

}  // namespace weir::text::parse
