#include "api/reply_text.h"

#include <algorithm>
#include <iterator>

#include "base/check.h"

namespace weir::api {
namespace {

std::int64_t count_characters(std::string_view utf8) {
  return std::count_if(utf8.begin(), utf8.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

bool contains(const std::vector<TokenId>& ids, TokenId id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

template <class T>
void move_to_end(std::vector<T>& to, std::vector<T>& from) {
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

}  // namespace

void ReplyPart::append(ReplyPart&& next) {
  text += next.text;
  reasoning += next.reasoning;
  text::parse::append_calls(calls, std::move(next.calls));
  move_to_end(tokens, next.tokens);
  move_to_end(entries, next.entries);
  move_to_end(prompt_logprobs, next.prompt_logprobs);
  if (next.finish) finish = std::move(next.finish);
}

ReplyText::ReplyText(const GenerationRequest& request, const std::vector<TokenId>& eos_ids, const EncodedPrompt& prompt,
                     const StopMatcher* stops)
    : request_(&request), eos_ids_(&eos_ids), prompt_(&prompt), detokenizer_(prompt.reply_text) {
  if (stops) scan_.emplace(*stops);
  if (prompt.syntax) parser_.emplace(prompt.syntax);
}

ReplyPart ReplyText::take(engine::SequenceOutput&& output) {
  ReplyPart part;
  if (finished_) return part;
  if (!std::exchange(started_, true)) take_prompt(output, part);
  for (std::size_t i = 0; i < output.tokens.size() && !finished_; ++i) take_token(output, i, part);
  if (output.finish && !finished_) {
    finished_ = true;
    stopped_ = output.finish == engine::FinishReason::kStop;
    part.finish = finish_of(output);
  }
  if (finished_) end(part);
  return part;
}

// What the parser still holds back.
void ReplyText::end(ReplyPart& part) {
  if (!parser_) return;
  text::parse::Delta delta;
  parser_->finish(delta, part.finish && part.finish->reason == "length");
  add(std::move(delta), part);
  if (parser_->calls() > 0 && part.finish && part.finish->reason == "stop") part.finish->reason = "tool_calls";
}

void ReplyText::say(std::string_view text, bool hidden, ReplyPart& part) {
  if (!parser_) {
    part.text += text;
    return;
  }
  text::parse::Delta delta;
  parser_->feed(text, hidden, delta);
  add(std::move(delta), part);
}

void ReplyText::add(text::parse::Delta&& delta, ReplyPart& part) const {
  part.text += delta.content;
  if (request_->include_reasoning) part.reasoning += delta.reasoning;
  if (!request_->parallel_tool_calls) std::erase_if(delta.calls, [](const auto& call) { return call.index > 0; });
  text::parse::append_calls(part.calls, std::move(delta.calls));
}

void ReplyText::take_prompt(engine::SequenceOutput& output, ReplyPart& part) {
  auto& logprobs = output.prompt_logprobs;
  if (request_->echo) {
    // No reply follows: what the prompt left unfinished will not be completed.
    const bool nothing_follows = output.finish && output.tokens.empty();
    for (std::size_t i = 0; i < prompt_->ids.size(); ++i) {
      std::string piece = prompt_->echo_pieces[i];
      if (nothing_follows && i + 1 == prompt_->ids.size()) piece += detokenizer_.finish();
      part.text += piece;
      std::optional<engine::PositionLogprobs> at;
      if (i > 0 && i <= logprobs.size()) at = logprobs[i - 1];
      add_entry(prompt_->ids[i], std::move(piece), std::move(at), true, part);
    }
  }
  if (request_->prompt_logprobs >= 0) part.prompt_logprobs = std::move(logprobs);
}

void ReplyText::take_token(engine::SequenceOutput& output, std::size_t i, ReplyPart& part) {
  const TokenId id = output.tokens[i];
  const bool last = output.finish && i + 1 == output.tokens.size();
  ++completion_tokens_;
  // The token that ended the reply is not part of its text.
  const bool hidden = last && output.stop_token && !request_->include_stop;
  std::string piece = hidden ? std::string() : detokenizer_.push(id);
  if (!hidden && parser_ && request_->skip_special_tokens) {
    const auto marker = prompt_->format->marker_tokens.find(id);
    if (marker != prompt_->format->marker_tokens.end()) show_marker(marker->second, part);
  }
  if (last) piece += detokenizer_.finish();
  part.tokens.push_back(id);
  show(piece, last, part);
  std::optional<engine::PositionLogprobs> at;
  if (i < output.logprobs.size()) at = std::move(output.logprobs[i]);
  add_entry(id, std::move(piece), std::move(at), false, part);
}

void ReplyText::show(std::string_view piece, bool last, ReplyPart& part) {
  if (!scan_) return say(piece, false, part);
  held_ += piece;
  const auto match = scan_->feed(piece);
  // A stop string counts if it is complete only after the tokens that must come.
  if (match && completion_tokens_ > request_->sampling.min_tokens) {
    const std::size_t end = request_->include_stop ? match->end : match->begin;
    CHECK(end >= held_begin_, "shown {} bytes, the stop string begins at {}", held_begin_, match->begin);
    release(end - held_begin_, part);
    part.finish = Finish{"stop", request_->stop[static_cast<std::size_t>(match->index)]};
    finished_ = stopped_ = true;
    return;
  }
  const std::size_t ready = last ? held_.size() : held_.size() - scan_->held_back();
  release(ready, part);
}

void ReplyText::show_marker(const std::string& marker, ReplyPart& part) {
  if (held_.empty()) return say(marker, true, part);
  held_markers_.emplace_back(held_begin_ + held_.size(), marker);
}

// Shows this much of what is held, with the markers in it.
void ReplyText::release(std::size_t bytes, ReplyPart& part) {
  const std::size_t end = held_begin_ + bytes;
  std::size_t shown = held_begin_;
  const auto show_to = [&](std::size_t to) {
    if (to > shown) say(std::string_view(held_).substr(shown - held_begin_, to - shown), false, part);
    shown = to;
  };
  for (; !held_markers_.empty() && held_markers_.front().first <= end; held_markers_.pop_front()) {
    show_to(held_markers_.front().first);
    say(held_markers_.front().second, true, part);
  }
  show_to(end);
  held_.erase(0, bytes);
  held_begin_ = end;
}

void ReplyText::add_entry(TokenId id, std::string piece, std::optional<engine::PositionLogprobs> logprobs,
                          bool of_prompt, ReplyPart& part) {
  if (request_->logprobs < 0) return;
  const std::int64_t offset = characters_;
  characters_ += count_characters(piece);
  part.entries.push_back({id, std::move(piece), offset, std::move(logprobs), of_prompt});
}

Finish ReplyText::finish_of(const engine::SequenceOutput& output) const {
  switch (*output.finish) {
    case engine::FinishReason::kLength:
      return {"length", {}};
    case engine::FinishReason::kError:
      CHECK(false, "an error has no finish reason: the request ends with it");
      break;
    case engine::FinishReason::kStop:
      break;
  }
  Finish finish{"stop", {}};
  if (output.stop_token) {
    const TokenId id = *output.stop_token;
    const bool ends_sequence = !request_->sampling.ignore_eos && contains(*eos_ids_, id);
    if (!ends_sequence && contains(request_->sampling.stop_token_ids, id)) finish.stop_reason = id;
  }
  return finish;
}

}  // namespace weir::api
