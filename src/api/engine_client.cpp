#include "api/engine_client.h"

namespace weir::api {
namespace {

class RealEngineClient final : public EngineClient {
 public:
  explicit RealEngineClient(engine::Engine& engine) : engine_(&engine) {}

  Result<std::vector<SeqId>> submit_all(std::vector<engine::SequenceRequest> requests) override {
    return engine_->submit_all(std::move(requests));
  }
  void cancel(SeqId id) override { engine_->cancel(id); }
  Status check_fits(std::int64_t prompt_tokens, std::int64_t max_tokens) const override {
    return engine_->check_fits(prompt_tokens, max_tokens);
  }
  engine::EngineStats stats() const override { return engine_->stats(); }
  const engine::EngineInfo& info() const override { return engine_->info(); }

 private:
  engine::Engine* engine_;
};

}  // namespace

std::unique_ptr<EngineClient> make_engine_client(engine::Engine& engine) {
  return std::make_unique<RealEngineClient>(engine);
}

}  // namespace weir::api
