// ReplyText: the tokens of one choice -> the text that may be shown, and where it ends.
//
// Whole and streamed replies are made by this one path, so they cannot differ. Text is shown as soon as it cannot be
// part of a stop string any more, and then goes through the parser of the reply's format, if it has one (stop strings
// know nothing of reasoning and calls). The text of a token is whatever became certain with it, so that joined token
// texts are the reply even where a character spans several tokens. Cost: O(bytes). One per choice; not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "api/generation_request.h"
#include "api/prompt_builder.h"
#include "api/stop_matcher.h"
#include "engine/engine.h"

namespace weir::api {

struct Finish {
  std::string_view reason;                                         // "stop", "length", "tool_calls"
  std::variant<std::monostate, TokenId, std::string> stop_reason;  // none: an end-of-sequence token, or the length
};

// One token with its log-probabilities, for replies that show them.
struct TokenEntry {
  TokenId id = 0;
  std::string piece;                                 // what it added to the text
  std::int64_t text_offset = 0;                      // characters before it
  std::optional<engine::PositionLogprobs> logprobs;  // none for the first token of a prompt
  bool of_prompt = false;                            // echoed
};

// What one step adds to a choice; a whole reply is all its parts added up.
struct ReplyPart {
  std::string text;       // of a chat: the content
  std::string reasoning;  // this and the calls only where the reply's format has them
  std::vector<text::parse::CallDelta> calls;
  std::vector<TokenId> tokens;
  std::vector<TokenEntry> entries;  // if the request asks for logprobs
  std::vector<engine::PositionLogprobs>
      prompt_logprobs;  // of prompt tokens 1 .. n-1, with the first part, if asked for
  std::optional<Finish> finish;

  void append(ReplyPart&& next);
};

class ReplyText {
 public:
  // `request`, `prompt` and `stops` (null: none) must outlive it.
  ReplyText(const GenerationRequest& request, const std::vector<TokenId>& eos_ids, const EncodedPrompt& prompt,
            const StopMatcher* stops);

  // Takes what the engine produced. After a finish nothing more is taken.
  ReplyPart take(engine::SequenceOutput&& output);

  bool finished() const { return finished_; }
  bool finished_by_stop() const { return stopped_; }
  std::int64_t completion_tokens() const { return completion_tokens_; }

 private:
  void take_prompt(engine::SequenceOutput& output, ReplyPart& part);
  void take_token(engine::SequenceOutput& output, std::size_t i, ReplyPart& part);
  void show(std::string_view piece, bool last, ReplyPart& part);
  void show_marker(const std::string& marker, ReplyPart& part);
  void release(std::size_t bytes, ReplyPart& part);
  void say(std::string_view text, bool hidden, ReplyPart& part);
  void end(ReplyPart& part);
  void add(text::parse::Delta&& delta, ReplyPart& part) const;
  void add_entry(TokenId id, std::string piece, std::optional<engine::PositionLogprobs> logprobs, bool of_prompt,
                 ReplyPart& part);
  Finish finish_of(const engine::SequenceOutput& output) const;

  const GenerationRequest* request_;
  const std::vector<TokenId>* eos_ids_;
  const EncodedPrompt* prompt_;
  text::Detokenizer detokenizer_;
  std::optional<StopMatcher::Scan> scan_;
  std::string held_;            // text not shown yet
  std::size_t held_begin_ = 0;  // bytes of the reply before it
  std::optional<text::parse::OutputParser> parser_;
  // Control tokens for the parser that came among what is held, with the bytes of the reply before them.
  std::deque<std::pair<std::size_t, std::string>> held_markers_;
  std::int64_t characters_ = 0;
  std::int64_t completion_tokens_ = 0;
  bool started_ = false;
  bool finished_ = false;
  bool stopped_ = false;
};

}  // namespace weir::api
