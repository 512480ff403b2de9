#include "engine/runner.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "base/check.h"
#include "sample/logprobs.h"

namespace weir::engine {
namespace {

// Memory for one piece of logits. 16 rows keep the output head at the speed of its small-row kernels even for a
// vocabulary of 262k (16 MiB); small vocabularies get more rows.
constexpr std::int64_t kLogitsBytes = 4 << 20;
constexpr std::int64_t kMinPieceRows = 16;
constexpr std::int64_t kMaxPieceRows = 128;

// What makes a row of logits useless; empty: nothing does. Single logits may be -infinity: tokens that never come.
std::string_view flaw_of(std::span<const float> logits) {
  float max = -std::numeric_limits<float>::infinity();
  bool has_nan = false;
  for (const float logit : logits) {
    has_nan |= logit != logit;
    max = std::max(max, logit);
  }
  if (has_nan) return "a NaN";
  if (max == std::numeric_limits<float>::infinity()) return "an infinite value";
  return std::isfinite(max) ? "" : "no finite value";
}

// The same for a row that the sampler found nothing in.
std::string_view unsampled_flaw(std::span<const float> logits) {
  const std::string_view flaw = flaw_of(logits);
  return flaw.empty() ? "nothing to sample" : flaw;
}

// Block tables grow by a column whenever a sequence gets a block: room for many, so that few steps allocate.
constexpr std::size_t kTableEntries = 4096;

std::int64_t piece_rows_for(std::int64_t vocab) {
  return std::clamp(kLogitsBytes / (vocab * static_cast<std::int64_t>(sizeof(float))), kMinPieceRows, kMaxPieceRows);
}

}  // namespace

backend::BufferUse Runner::logits_buffer(std::int64_t vocab, std::int64_t samples) {
  const std::int64_t piece = piece_rows_for(vocab);
  const auto row_bytes = static_cast<std::size_t>(vocab) * sizeof(float);
  return {static_cast<std::size_t>(piece) * row_bytes, static_cast<std::size_t>(std::min(piece, samples)) * row_bytes};
}

Runner::Runner(backend::Backend& backend, model::Model& model, model::KvView kv_view, std::int64_t vocab)
    : backend_(backend), model_(model), kv_view_(std::move(kv_view)), vocab_(vocab) {
  const auto row_bytes = vocab * static_cast<std::int64_t>(sizeof(float));
  piece_rows_ = piece_rows_for(vocab);
  logits_memory_ = backend.allocate(static_cast<std::size_t>(piece_rows_ * row_bytes));
  scratch_.resize(static_cast<std::size_t>(backend.compute_threads()));
  for (RowScratch& scratch : scratch_) {
    scratch.raw.reserve(static_cast<std::size_t>(vocab));
    scratch.sampler.candidates.reserve(static_cast<std::size_t>(vocab));
  }
}

void Runner::build_batch(const sched::StepPlan& plan, const sched::Scheduler& scheduler, const kv::KvManager& kv,
                         const std::function<Sequence&(SeqId)>& find) {
  batch_.groups.resize(kv.layout().groups.size());
  batch_.clear();
  logit_rows_.clear();
  sampled_.clear();
  for (const sched::ScheduledRange& range : plan.ranges) {
    Sequence& sequence = find(range.id);
    const std::span<const TokenId> tokens = scheduler.tokens(range.id);
    for (std::int64_t position = range.begin; position < range.end; ++position) {
      const auto row = static_cast<std::int32_t>(batch_.tokens.size());
      batch_.tokens.push_back(tokens[static_cast<std::size_t>(position)]);
      batch_.positions.push_back(static_cast<std::int32_t>(position));
      batch_.known.push_back(static_cast<std::int32_t>(tokens.size()));
      const std::int64_t next = position + 1;
      if (range.samples && next == range.end) {
        batch_.logit_rows.push_back(row);
        logit_rows_.push_back({&sequence, position, -1, sampled_.size()});
        sampled_.push_back({&sequence, std::nullopt, std::nullopt});
      } else if (sequence.wants_logits_about(next)) {
        batch_.logit_rows.push_back(row);
        logit_rows_.push_back({&sequence, position, tokens[static_cast<std::size_t>(next)], 0});
      }
    }
    batch_.query_starts.push_back(static_cast<std::int32_t>(batch_.tokens.size()));
    batch_.seq_lens.push_back(static_cast<std::int32_t>(range.end));
  }
  add_tables(plan, kv);
}

void Runner::add_tables(const sched::StepPlan& plan, const kv::KvManager& kv) {
  const std::int64_t block_tokens = kv.layout().block_tokens;
  batch_.state_width = kv.layout().state_blocks;
  for (const sched::ScheduledRange& range : plan.ranges) {
    const std::span<const std::int32_t> blocks = kv.state_blocks(range.id);
    batch_.state_tables.insert(batch_.state_tables.end(), blocks.begin(), blocks.end());
  }
  for (std::size_t g = 0; g < batch_.groups.size(); ++g) {
    model::ForwardBatch::Group& group = batch_.groups[g];
    for (const sched::ScheduledRange& range : plan.ranges) {
      group.table_width = std::max(group.table_width, (range.end + block_tokens - 1) / block_tokens);
    }
    const std::size_t entries = plan.ranges.size() * static_cast<std::size_t>(group.table_width);
    if (group.tables.capacity() < entries) group.tables.reserve(std::max(2 * entries, kTableEntries));
    group.tables.assign(entries, -1);
    for (std::size_t s = 0; s < plan.ranges.size(); ++s) {
      const sched::ScheduledRange& range = plan.ranges[s];
      const std::span<const std::int32_t> table = kv.block_table(range.id, static_cast<int>(g));
      const std::int64_t blocks = (range.end + block_tokens - 1) / block_tokens;
      CHECK(static_cast<std::int64_t>(table.size()) >= blocks, "table={} blocks={}", table.size(), blocks);
      std::copy_n(table.begin(), blocks, group.tables.begin() + static_cast<std::ptrdiff_t>(s) * group.table_width);
      for (std::int64_t position = range.begin; position < range.end; ++position) {
        const std::int32_t block = table[static_cast<std::size_t>(position / block_tokens)];
        CHECK(block >= 0, "no block for position {} of sequence {} in group {}", position, value(range.id), g);
        group.slots.push_back(block * block_tokens + position % block_tokens);
      }
    }
  }
}

void Runner::read_row(const LogitRow& row, tensor::Matrix<float> logits, std::int64_t i, RowScratch& scratch) {
  const std::span<float> values(logits.row(i), static_cast<std::size_t>(vocab_));
  const sample::SamplingParams& params = row.sequence->request.sampling;
  std::string_view& flaw = flaws_[static_cast<std::size_t>(i)];
  if (row.prompt_target >= 0) {
    flaw = flaw_of(values);
    if (!flaw.empty() || row.sequence->request.logits != nullptr) return;
    prompt_logprobs_[static_cast<std::size_t>(i)] =
        sample::row_logprobs(values, row.prompt_target, params.prompt_logprobs);
    return;
  }
  // Logprobs are the model's own, so they are taken before the sampler changes the row; which token is "chosen" is
  // known after.
  Sampled& out = sampled_[row.sampled_index];
  if (params.logprobs < 0) {
    out.token = row.sequence->sampler.sample(values, row.position + 1, scratch.sampler);
    if (!out.token) flaw = unsampled_flaw(values);
    return;
  }
  scratch.raw.assign(values.begin(), values.end());
  out.token = row.sequence->sampler.sample(values, row.position + 1, scratch.sampler);
  if (out.token) out.logprobs = sample::row_logprobs(scratch.raw, *out.token, params.logprobs);
  if (!out.token) flaw = unsampled_flaw(values);
}

const std::vector<Runner::Sampled>& Runner::run(const sched::StepPlan& plan, const sched::Scheduler& scheduler,
                                                const kv::KvManager& kv, const std::function<Sequence&(SeqId)>& find) {
  build_batch(plan, scheduler, kv, find);
  model_.forward(batch_, kv_view_);
  const auto count = static_cast<std::int64_t>(logit_rows_.size());
  for (std::int64_t begin = 0; begin < count; begin += piece_rows_) {
    const std::int64_t rows = std::min(piece_rows_, count - begin);
    const tensor::Matrix<float> logits(reinterpret_cast<float*>(logits_memory_->data()), rows, vocab_);
    model_.logits(begin, logits);
    prompt_logprobs_.assign(static_cast<std::size_t>(rows), {});
    flaws_.assign(static_cast<std::size_t>(rows), {});
    const auto parts = static_cast<std::int64_t>(scratch_.size());
    const auto read = [&](std::int64_t part) {
      for (std::int64_t i = rows * part / parts; i < rows * (part + 1) / parts; ++i) {
        read_row(logit_rows_[static_cast<std::size_t>(begin + i)], logits, i, scratch_[static_cast<std::size_t>(part)]);
      }
    };
    backend_.parallel_for(parts, std::cref(read));
    for (std::int64_t i = 0; i < rows; ++i) {
      const LogitRow& row = logit_rows_[static_cast<std::size_t>(begin + i)];
      const std::string_view flaw = flaws_[static_cast<std::size_t>(i)];
      if (!flaw.empty() && row.sequence->failure.empty()) {
        row.sequence->failure = fmt::format("the model's logits for position {} hold {}", row.position + 1, flaw);
      }
      if (row.prompt_target >= 0 && row.sequence->request.logits == nullptr) {
        row.sequence->prompt_logprobs.push_back(std::move(prompt_logprobs_[static_cast<std::size_t>(i)]));
      }
    }
    hand_on(begin, logits);
  }
  return sampled_;
}

void Runner::hand_on(std::int64_t begin, tensor::Matrix<float> logits) {
  const auto at = [&](std::int64_t i) -> const LogitRow& { return logit_rows_[static_cast<std::size_t>(begin + i)]; };
  for (std::int64_t i = 0, end = 0; i < logits.rows; i = std::max(end, i + 1)) {
    Sequence& sequence = *at(i).sequence;
    if (at(i).prompt_target < 0 || sequence.request.logits == nullptr || !sequence.failure.empty()) continue;
    end = i + 1;
    while (end < logits.rows && at(end).sequence == &sequence && at(end).prompt_target >= 0) ++end;
    sequence.request.logits->read(at(i).position + 1, {logits.row(i), end - i, logits.cols, logits.stride}, backend_);
    sequence.logits_read = at(i).position + 1 + end - i;
  }
}

}  // namespace weir::engine
