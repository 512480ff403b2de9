// The arithmetic of one instance in steady state. docs/planning/parallel.md has it with its sources.
#include <algorithm>
#include <cmath>

#include "plan/search/search.h"

namespace weir::plan {
namespace {

// Passes must be able to take more prompt tokens than come, or the queue grows without end; beyond this share the wait
// is many times the work.
constexpr double kMostPrefillShare = 0.95;

std::int64_t at_least_one(double value) {
  return std::max<std::int64_t>(1, std::llround(value));
}

StepShape decode_shape(double sequences, double context) {
  StepShape shape;
  shape.sequences = shape.tokens = shape.decode_tokens = shape.samples = at_least_one(sequences);
  shape.attended = shape.decode_attended = shape.context_read = static_cast<double>(shape.sequences) * context;
  return shape;
}

// Adds `tokens` of prompts that are computed in `chunks` equal pieces behind `cached` tokens, averaged over the pieces.
void add_prompts(StepShape& shape, double tokens, double computed, double cached, double chunks) {
  const double pieces = tokens * chunks / computed;
  shape.sequences += at_least_one(pieces);
  shape.tokens += at_least_one(tokens);
  shape.samples += at_least_one(tokens / computed);
  shape.attended += tokens * (cached + computed / 2);
  shape.context_read += pieces * (cached + computed * (chunks + 1) / (2 * chunks));
}

}  // namespace

double SearchWorkload::computed_tokens(int block_size) const {
  const double cached = std::floor(input_tokens * cached_fraction / block_size) * block_size;
  return std::max(1.0, input_tokens - cached);
}

std::optional<SteadyState> aggregated_steady_state(const InstanceModel& model, const ParallelLayout& layout,
                                                   const SearchWorkload& workload, std::int64_t batch, int batch_tokens,
                                                   int block_size) {
  const double passes = layout.pp, groups = layout.dp;
  const double sequences = static_cast<double>(batch) / passes;  // of one pass
  const double computed = workload.computed_tokens(block_size);
  const double room = batch_tokens * groups - sequences;
  // Every pass each sequence gets a token, so in a pass this much of prompts must be computed for what ends.
  const double need = sequences * computed / (workload.output_tokens - 1);
  if (room < groups || need > kMostPrefillShare * room) return std::nullopt;

  SteadyState state;
  state.decode = decode_shape(sequences, workload.mean_context());
  state.prefill_share = need / room;
  // A prompt's chunks come in successive passes, one prompt a group; if those passes do not suffice, several share one.
  const double chunks = std::ceil(computed * groups / room);
  const double together = groups * computed / chunks;
  const double share = std::min(1.0, need / together);
  StepShape mixed = state.decode;
  add_prompts(mixed, std::max(need, together), computed, workload.input_tokens - computed, chunks);
  const double decode_s = model.step_s(state.decode), mixed_s = model.step_s(mixed);
  // Passes cannot overtake each other in a pipeline: all that are under way go at the pace of the slowest among them.
  const double slow = 1 - std::pow(1 - share, passes);
  state.tpot_s = (1 - slow) * decode_s + slow * mixed_s;
  // Stages work on successive chunks at once. Half a pass until the next begins; the wait for earlier prompts is that
  // of a queue with steady service and random arrivals (M/D/1).
  const double service_s = mixed_s * chunks / passes;
  const double wait_s = state.prefill_share / (2 * (1 - state.prefill_share)) * service_s;
  state.ttft_s = state.tpot_s / (2 * passes) + wait_s + mixed_s * (chunks + passes - 1) / passes;
  return state;
}

KvOfSequence kv_of_sequence(const InstanceModel& model, const SearchWorkload& workload, int block_size) {
  constexpr int kAges = 16;  // enough for windows, which end somewhere between
  KvOfSequence kv;
  double squares = 0;
  for (int age = 0; age < kAges; ++age) {
    const double tokens = workload.input_tokens + workload.output_tokens * (age + 0.5) / kAges;
    const double bytes = model.kv_bytes(tokens, block_size);
    kv.mean += bytes / kAges;
    squares += bytes * bytes / kAges;
  }
  kv.deviation = std::sqrt(std::max(0.0, squares - kv.mean * kv.mean));
  kv.most = model.kv_bytes(workload.longest_context(), block_size);
  return kv;
}

double kv_need(const KvOfSequence& kv, const ParallelLayout& layout, std::int64_t batch) {
  const double sequences = std::ceil(static_cast<double>(batch) / layout.dp);
  return std::min(sequences * kv.most, sequences * kv.mean + 2 * std::sqrt(sequences) * kv.deviation);
}

PrefillState prefill_state(const InstanceModel& model, const ParallelLayout& layout, const SearchWorkload& workload,
                           int batch_tokens, int block_size) {
  const double computed = workload.computed_tokens(block_size);
  const double chunks = std::ceil(computed / batch_tokens);
  // Short prompts share a pass, as many as fit; a long one takes several.
  const double prompts = layout.dp * std::max(1.0, std::floor(batch_tokens / computed));
  StepShape shape;
  add_prompts(shape, prompts * computed / chunks, computed, workload.input_tokens - computed, chunks);
  const double pass_s = model.step_s(shape);
  PrefillState state;
  state.prompts = prompts;
  state.service_s = pass_s * (chunks + layout.pp - 1) / layout.pp;
  state.requests_s = prompts * layout.pp / (pass_s * chunks);
  state.shape = shape;
  return state;
}

SteadyState decode_steady_state(const InstanceModel& model, const ParallelLayout& layout,
                                const SearchWorkload& workload, std::int64_t batch) {
  SteadyState state;
  state.decode = decode_shape(static_cast<double>(batch) / layout.pp, workload.mean_context());
  state.tpot_s = model.step_s(state.decode);
  return state;
}

double queue_wait(double share, double service_s, int servers) {
  const double busy = std::min(share, kMostPrefillShare);
  return busy / (2 * (1 - busy)) * service_s / servers;
}

double most_prefill_share() {
  return kMostPrefillShare;
}

}  // namespace weir::plan
