// LocalSession: a model in this process for the terminal commands; one reply at a time, through the same steps as the
// server's.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "api/engine_client.h"
#include "api/generation_request.h"
#include "api/reply_text.h"
#include "apps/model_loading.h"
#include "apps/options.h"
#include "base/mailbox.h"

namespace weir::apps {

struct ReplyStats {
  std::int64_t prompt_tokens = 0, cached_tokens = 0, output_tokens = 0;
  double first_token_s = 0, total_s = 0;
  std::string text, reasoning;
  std::string_view finish;  // "stop", "length", "stopped"
};

class LocalSession {
 public:
  static Result<std::unique_ptr<LocalSession>> open(const ModelOptions& options);
  ~LocalSession();

  const api::ServedModel& model() const { return *loaded_.served; }
  const LoadedModel& loaded() const { return loaded_; }

  // Runs one reply; `show` gets its parts as they come. `stop` set from elsewhere (a signal) ends it.
  Result<ReplyStats> reply(api::GenerationRequest request, const api::ChatInput* chat,
                           const std::function<void(const api::ReplyPart&)>& show, const std::atomic<bool>& stop);

 private:
  LocalSession();

  Mailbox<engine::SequenceOutput> outputs_;
  LoadedModel loaded_;
  std::unique_ptr<api::EngineClient> client_;
  std::uint64_t drawn_seed_ = 0;
};

// The request fields that the command line gives; checked as the server checks them.
Result<api::GenerationRequest> to_request(const SamplingOptions& options, const api::ServedModel& model);

}  // namespace weir::apps
