// OutputFormat: how a model marks its reasoning and its tool calls, found from its chat template or named.
//
// The template is what the model was trained with, so the markers it writes into past replies are those that the model
// writes itself. The tables of formats.cpp are the one place that knows which text of a template means which notation.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/parse/notation.h"
#include "text/tokenizer.h"

namespace weir::text::parse {

struct ReasoningNotation {
  std::string name;
  std::vector<std::string> opens, closes;
  // Markers around the answer proper, no part of it.
  std::vector<std::string> answer_opens, answer_closes;
  bool assumed = false;  // the model reasons from the first token on even where no marker says so
};

struct OutputFormat {
  std::optional<ReasoningNotation> reasoning;
  std::string tools_name;  // "": no calls
  NotationPtr tools;
  bool harmony = false;    // messages in channels: gpt-oss's, or with `tools` Muse Glimmer's
  bool short_ids = false;  // the template wants call ids of nine letters and digits

  bool plain() const { return !reasoning && !tools && !harmony; }
  std::string_view reasoning_name() const {
    if (harmony) return tools ? std::string_view(tools_name) : "openai_gptoss";
    return reasoning ? std::string_view(reasoning->name) : "none";
  }
  std::string_view tool_name() const { return tools ? std::string_view(tools_name) : harmony ? "openai" : "none"; }
  // All the markers that the parser looks for. A control token that stands in one of them must reach it.
  std::vector<std::string> markers() const;
};

// By the text of the chat template.
OutputFormat recognise_format(std::string_view chat_template);

// `reasoning`, `tools`: vLLM's names of parsers, "none", or "" and "auto" for what the template says.
Result<OutputFormat> choose_format(std::string_view chat_template, std::string_view reasoning, std::string_view tools);

// The names that choose_format() knows, with "none".
std::vector<std::string> reasoning_parsers();
std::vector<std::string> tool_parsers();

// Where in its format a reply begins.
struct ReplyStart {
  bool reasoning = false;   // the prompt has opened it
  bool closed = false;      // the prompt has opened and closed it: white space follows
  bool continued = false;   // the reply goes on with a message that has begun
  std::string header;       // harmony: what the prompt has of the message's header
  bool in_message = false;  // harmony: the header is complete
};
// `prompt`: as rendered. `user`: its parts that come from the request and not from the template. `continued`: the text
// of the message that the reply continues, if it continues one.
ReplyStart reply_start(const OutputFormat& format, std::string_view prompt, const std::vector<ByteRange>& user,
                       std::optional<std::string_view> continued);

}  // namespace weir::text::parse
