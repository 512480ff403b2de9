#include "apps/local_session.h"

#include <chrono>
#include <random>
#include <vector>

#include "api/clock.h"
#include "api/prompt_builder.h"

namespace weir::apps {
namespace {

constexpr std::size_t kWaitingOutputs = 1 << 20;  // one reply has fewer tokens than this

}  // namespace

LocalSession::LocalSession() : outputs_(kWaitingOutputs) {
  std::random_device entropy;
  drawn_seed_ = std::uint64_t{entropy()} << 32 | entropy();
}

LocalSession::~LocalSession() {
  outputs_.close();
}

Result<std::unique_ptr<LocalSession>> LocalSession::open(const ModelOptions& options) {
  std::unique_ptr<LocalSession> session(new LocalSession);
  auto sink = [outputs = &session->outputs_](std::vector<engine::SequenceOutput>& step) {
    for (auto& output : step) (void)outputs->put(std::move(output));  // refused only when the session is closing
  };
  WEIR_TRY(session->loaded_, load_model(options, "", std::move(sink)));
  session->client_ = api::make_engine_client(*session->loaded_.engine);
  return session;
}

Result<ReplyStats> LocalSession::reply(api::GenerationRequest request, const api::ChatInput* chat,
                                       const std::function<void(const api::ReplyPart&)>& show,
                                       const std::atomic<bool>& stop) {
  const double start_s = api::monotonic_s();
  WEIR_TRY(const auto prompts, api::build_prompts(model(), *client_, request, chat));
  const auto& prompt = prompts.front();
  engine::SequenceRequest sequence;
  sequence.prompt = prompt.ids;
  sequence.sampling = request.sampling;
  sequence.sampling.max_tokens = *request.max_tokens;
  sequence.sampling.seed = request.seed.value_or(drawn_seed_++);
  sequence.eos_ids = model().eos_ids;
  std::vector<engine::SequenceRequest> sequences;
  sequences.push_back(std::move(sequence));
  WEIR_TRY(const auto ids, client_->submit_all(std::move(sequences)));

  ReplyStats stats;
  stats.prompt_tokens = static_cast<std::int64_t>(prompt.ids.size());
  api::ReplyText text(request, model().eos_ids, prompt, nullptr);
  std::vector<engine::SequenceOutput> step;
  while (!text.finished()) {
    outputs_.take_all(step, true);
    for (auto& output : step) {
      if (output.id != ids.front()) continue;  // left over from a reply that was stopped
      if (output.finish == engine::FinishReason::kError)
        return fail(ErrorCode::kInternal, "the engine could not go on with this reply: {}", output.error);
      if (stats.first_token_s == 0 && !output.tokens.empty()) {
        stats.first_token_s = api::monotonic_s() - start_s;
        stats.cached_tokens = output.cached_tokens;
      }
      const auto part = text.take(std::move(output));
      stats.text += part.text;
      stats.reasoning += part.reasoning;
      show(part);
      if (part.finish) stats.finish = part.finish->reason;
    }
    if (stop && !text.finished()) {
      client_->cancel(ids.front());
      stats.finish = "stopped";
      break;
    }
  }
  stats.output_tokens = text.completion_tokens();
  stats.total_s = api::monotonic_s() - start_s;
  return stats;
}

Result<api::GenerationRequest> to_request(const SamplingOptions& options, const api::ServedModel& model) {
  api::Json body = api::Json::object();
  body["prompt"] = "-";  // replaced by the caller
  const auto set = [&](const char* name, const auto& value) {
    if (value) body[name] = *value;
  };
  set("temperature", options.temperature);
  set("top_p", options.top_p);
  set("min_p", options.min_p);
  set("top_k", options.top_k);
  set("repetition_penalty", options.repetition_penalty);
  set("max_tokens", options.max_tokens);
  set("seed", options.seed);
  WEIR_TRY(auto request, api::parse_completion_request(body, {model.vocab_size, model.defaults}));
  request.prompts.clear();
  request.max_tokens = options.max_tokens;  // open-ended unless given, unlike a completion over HTTP
  return request;
}

}  // namespace weir::apps
