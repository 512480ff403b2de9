// EngineClient: what the API needs of an engine. The real one is a few lines over engine::Engine; tests use a scripted
// one.
#pragma once

#include <memory>
#include <vector>

#include "engine/engine.h"

namespace weir::api {

class EngineClient {
 public:
  virtual ~EngineClient() = default;

  // All or none. Outputs go to the sink the engine was made with. Any thread; never blocks.
  virtual Result<std::vector<SeqId>> submit_all(std::vector<engine::SequenceRequest> requests) = 0;
  virtual void cancel(SeqId id) = 0;
  virtual Status check_fits(std::int64_t prompt_tokens, std::int64_t max_tokens) const = 0;
  virtual engine::EngineStats stats() const = 0;
  virtual const engine::EngineInfo& info() const = 0;
};

std::unique_ptr<EngineClient> make_engine_client(engine::Engine& engine);

}  // namespace weir::api
