#include "api/generation.h"

#include <spdlog/spdlog.h>

#include "api/errors.h"
#include "base/check.h"
#include "base/rng.h"

namespace weir::api {
namespace {

// The first choice has the seed of the request, so that n = 1 and n = 4 begin alike.
std::uint64_t choice_seed(std::uint64_t seed, int choice) {
  if (choice == 0) return seed;
  const auto bits = philox(seed, static_cast<std::uint64_t>(choice),
                           0x63686F696365);  // "choice": apart from the counters of sampling
  return std::uint64_t{bits[0]} << 32 | bits[1];
}

}  // namespace

Generation::Generation(const ServedModel& model, Metrics& metrics, GenerationJob job)
    : model_(&model), metrics_(&metrics), job_(std::move(job)), frame_{&job_.request, &model, job_.id, job_.created_s} {
  if (!job_.request.stop.empty()) stops_.emplace(job_.request.stop);
  for (const auto& prompt : job_.prompts) {
    for (int i = 0; i < job_.request.n; ++i) {
      choices_.push_back(
          {ReplyText(job_.request, model.eos_ids, prompt, stops_ ? &*stops_ : nullptr), &prompt, {}, false});
    }
  }
  cached_.assign(job_.prompts.size(), -1);
  last_token_s_.assign(choices_.size(), 0.0);
  open_choices_ = choices_.size();
}

std::vector<engine::SequenceRequest> Generation::sequences() const {
  const auto& request = job_.request;
  std::vector<engine::SequenceRequest> out;
  out.reserve(choices_.size());
  for (const auto& prompt : job_.prompts) {
    for (int i = 0; i < request.n; ++i) {
      engine::SequenceRequest sequence;
      sequence.prompt = prompt.ids;
      sequence.sampling = request.sampling;
      sequence.sampling.seed = choice_seed(job_.seed, i);
      sequence.sampling.max_tokens = *request.max_tokens;
      sequence.sampling.logprobs = request.logprobs;
      sequence.sampling.prompt_logprobs = std::max(request.prompt_logprobs, request.echo ? request.logprobs : -1);
      sequence.eos_ids = model_->eos_ids;
      sequence.priority = request.priority;
      sequence.cache_salt = request.cache_salt;
      out.push_back(std::move(sequence));
    }
  }
  return out;
}

void Generation::submitted(std::vector<SeqId> ids) {
  CHECK(ids.size() == choices_.size(), "{} sequences for {} choices", ids.size(), choices_.size());
  ids_ = std::move(ids);
  if (job_.request.stream) job_.reply->begin_stream("text/event-stream; charset=utf-8");
}

void Generation::note_output(const engine::SequenceOutput& output, std::size_t choice, double now_s) {
  const std::size_t prompt = choice / static_cast<std::size_t>(job_.request.n);
  if (cached_[prompt] < 0) {
    cached_[prompt] = output.cached_tokens;
    metrics_->count_prompt(static_cast<std::int64_t>(job_.prompts[prompt].ids.size()), output.cached_tokens);
  }
  if (queued_s_ == 0) {
    queued_s_ = output.queued_s;
    scheduled_s_ = output.scheduled_s;
  }
  if (output.tokens.empty()) return;
  if (first_token_s_ == 0) {
    first_token_s_ = now_s;
    metrics_->observe_first_token(now_s - job_.arrived_s);
  }
  if (last_token_s_[choice] > 0) metrics_->observe_inter_token(now_s - last_token_s_[choice]);
  last_token_s_[choice] = latest_token_s_ = now_s;
}

bool Generation::take(std::size_t choice, engine::SequenceOutput&& output, double now_s) {
  auto& c = choices_[choice];
  if (complete_ || c.text.finished()) return false;
  note_output(output, choice, now_s);
  if (output.finish == engine::FinishReason::kError) {
    // What this choice still holds back stays there: flush() ends the request with the error.
    failure_ = std::move(output.error);
    return false;
  }
  const bool engine_done = output.finish.has_value();
  const std::int64_t before = c.text.completion_tokens();
  ReplyPart part = c.text.take(std::move(output));
  metrics_->count_generated(c.text.completion_tokens() - before);
  if (c.text.finished()) --open_choices_;
  name_calls(choice, part);

  if (!job_.request.stream) {
    c.whole.append(std::move(part));
  } else {
    const bool tokens_shown = !part.tokens.empty() && (job_.request.return_token_ids || job_.request.logprobs >= 0);
    const bool said = !part.text.empty() || !part.reasoning.empty() || !part.calls.empty();
    if (!c.sent || said || part.finish || tokens_shown || job_.request.continuous_usage) {
      append_part_event(events_, frame_, {static_cast<int>(choice), &part, &c.prompt->ids}, !c.sent, usage());
      c.sent = true;
    }
  }
  return c.text.finished() && !engine_done;
}

// Calls that the model has given no id get one: unlike any other of this or another request.
void Generation::name_calls(std::size_t choice, ReplyPart& part) const {
  const auto* format = choices_[choice].prompt->format;
  constexpr std::size_t kShort = 9;
  for (auto& call : part.calls) {
    if (!call.first) continue;
    const bool short_id = format && format->format->short_ids;
    if (!call.id.empty() && (!short_id || call.id.size() == kShort)) continue;
    call.id = fmt::format("call_{}_{}_{}", std::string_view(job_.id).substr(job_.id.find('-') + 1), choice, call.index);
    if (!short_id) continue;
    const auto bits = philox(std::hash<std::string>()(call.id), call.index);
    call.id = fmt::format("{:08x}{:08x}", bits[0], bits[1]).substr(0, kShort);
  }
}

Usage Generation::usage() const {
  Usage out;
  for (std::size_t i = 0; i < job_.prompts.size(); ++i) {
    out.prompt_tokens += static_cast<std::int64_t>(job_.prompts[i].ids.size());
    out.cached_tokens += std::max<std::int64_t>(cached_[i], 0);
  }
  for (const auto& choice : choices_) out.completion_tokens += choice.text.completion_tokens();
  return out;
}

std::string Generation::whole() const {
  std::vector<ReplyChoice> all;
  for (std::size_t i = 0; i < choices_.size(); ++i)
    all.push_back({static_cast<int>(i), &choices_[i].whole, &choices_[i].prompt->ids});
  return whole_reply(frame_, all, usage());
}

void Generation::flush(double now_s) {
  if (complete_) return;
  if (failure_)
    return give_up({ErrorCode::kInternal, "the engine could not go on with this request: " + *failure_, {}}, now_s);
  const bool done = open_choices_ == 0;
  if (done) finish(choices_.front().text.finished_by_stop() ? "stop" : "length", 200, now_s);
  if (job_.request.stream) {
    if (done && job_.request.include_usage) append_usage_event(events_, frame_, usage());
    if (done) events_.append(kDoneEvent);
    if (!events_.empty()) job_.reply->write(events_);
    events_.clear();
    if (done) job_.reply->end();
  } else if (done) {
    job_.reply->send(200, "application/json", whole());
  }
}

void Generation::give_up(const Error& error, double now_s) {
  if (complete_) return;
  finish(error.code == ErrorCode::kInternal ? "error" : "abort", http_status(error), now_s);
  if (!job_.request.stream || ids_.empty()) {
    HttpHeaders headers;
    if (error.code == ErrorCode::kOverloaded) headers.emplace_back("Retry-After", "1");
    job_.reply->send(http_status(error), "application/json", error_body(error), std::move(headers));
  } else {
    append_error_event(events_, error);
    events_.append(kDoneEvent);
    job_.reply->write(events_);
    job_.reply->end();
  }
}

void Generation::client_left(double now_s) {
  constexpr int kClientClosedRequest = 499;  // nginx's number for it, in logs and metrics only
  if (!complete_) finish("abort", kClientClosedRequest, now_s);
}

// Before the last bytes are handed on, so that a client that has its whole reply finds itself counted.
void Generation::finish(std::string_view reason, int status, double now_s) {
  complete_ = true;
  const Usage used = usage();
  RequestRecord record;
  record.finished_reason = reason;
  record.prompt_tokens = used.prompt_tokens;
  record.cached_tokens = used.cached_tokens;
  record.generation_tokens = used.completion_tokens;
  record.max_tokens = *job_.request.max_tokens;
  record.n = job_.request.n;
  record.e2e_s = now_s - job_.arrived_s;
  const double last_s = latest_token_s_ > 0 ? latest_token_s_ : now_s;
  if (scheduled_s_ > 0) {
    record.queue_s = scheduled_s_ - queued_s_;
    record.inference_s = last_s - scheduled_s_;
  }
  // A request of several choices has that many tokens per step.
  const double per_choice = static_cast<double>(used.completion_tokens) / static_cast<double>(choices_.size());
  if (first_token_s_ > 0) {
    if (scheduled_s_ > 0) record.prefill_s = first_token_s_ - scheduled_s_;
    record.decode_s = last_s - first_token_s_;
    if (per_choice > 1) record.time_per_output_token_s = record.decode_s / (per_choice - 1);
  }
  metrics_->observe_request(record);
  const std::string_view route = job_.request.chat ? "/v1/chat/completions" : "/v1/completions";
  metrics_->count_http(route, "POST", status);
  const auto ms = [](double seconds) {
    return seconds >= 0 ? fmt::format("{:.1f} ms", seconds * 1e3) : std::string("-");
  };
  spdlog::info("{} {} {} prompt {} (cached {}) output {} {} ttft {} tpot {} total {}", job_.id, route, status,
               used.prompt_tokens, used.cached_tokens, used.completion_tokens, reason,
               ms(first_token_s_ > 0 ? first_token_s_ - job_.arrived_s : -1), ms(record.time_per_output_token_s),
               ms(record.e2e_s));
}

}  // namespace weir::api
