// Runner: a StepPlan -> the forward pass -> a token for every range that samples, and the logprobs that were asked for.
//
// Logits are made and consumed in pieces of rows, so their memory does not grow with the number of rows.
// Threads: engine thread; sampling of different rows runs on the backend's compute threads.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "engine/sequence.h"
#include "kv/kv_manager.h"
#include "model/model.h"
#include "sched/scheduler.h"

namespace weir::engine {

class Runner {
 public:
  Runner(backend::Backend& backend, model::Model& model, model::KvView kv_view, std::int64_t vocab);

  // Logits of so many rows that are sampled at once. What threads keep beside is as large, but hardly written.
  static backend::BufferUse logits_buffer(std::int64_t vocab, std::int64_t samples);

  struct Sampled {
    Sequence* sequence = nullptr;
    std::optional<TokenId> token;  // nullopt: the logits were not finite, see the sequence's failure
    std::optional<PositionLogprobs> logprobs;
  };

  // Sets `failure` of a sequence whose logits are broken, of the prompt's too where their logprobs are wanted.
  // `find`: the Sequence of an id. The result has one entry per range with `samples`, in plan order, and is valid until
  // the next run.
  const std::vector<Sampled>& run(const sched::StepPlan& plan, const sched::Scheduler& scheduler,
                                  const kv::KvManager& kv, const std::function<Sequence&(SeqId)>& find);

 private:
  // One row of logits and who reads it.
  struct LogitRow {
    Sequence* sequence = nullptr;
    std::int64_t position = 0;   // of the row's token; the logits are about position + 1
    TokenId prompt_target = -1;  // the prompt token whose logprob is wanted; -1 = the row is sampled
    std::size_t sampled_index = 0;
  };

  // What one thread needs to read rows, as large as the vocabulary. All of it is there from the start: which thread
  // reads which row differs from step to step, and a step is not to allocate.
  struct RowScratch {
    std::vector<float> raw;
    sample::SamplerScratch sampler;
  };

  void build_batch(const sched::StepPlan& plan, const sched::Scheduler& scheduler, const kv::KvManager& kv,
                   const std::function<Sequence&(SeqId)>& find);
  void add_tables(const sched::StepPlan& plan, const kv::KvManager& kv);
  // The rows of a piece, the first being number `begin`, that the requests' own readers want.
  void hand_on(std::int64_t begin, tensor::Matrix<float> logits);
  void read_row(const LogitRow& row, tensor::Matrix<float> logits, std::int64_t i, RowScratch& scratch);

  backend::Backend& backend_;
  model::Model& model_;
  model::KvView kv_view_;
  model::ForwardBatch batch_;
  std::int64_t piece_rows_;
  std::unique_ptr<backend::Buffer> logits_memory_;
  std::int64_t vocab_;
  std::vector<RowScratch> scratch_;  // one per compute thread
  std::vector<LogitRow> logit_rows_;
  std::vector<Sampled> sampled_;
  // One per logit row of the piece in hand.
  std::vector<PositionLogprobs> prompt_logprobs_;
  std::vector<std::string_view> flaws_;
};

}  // namespace weir::engine
