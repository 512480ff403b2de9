#include "plan/search/search.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "plan/search/front.h"
#include "plan/search/search_space.h"

namespace weir::plan {
namespace {

class Search {
 public:
  Search(const InstanceSource& source, const SearchRequest& request)
      : request_(request), space_(source, request), best_(2 * space_.candidates().size()) {}

  Result<SearchResult> run();

 private:
  void scan_aggregated(std::size_t index, int batch_tokens, int block_size);
  void scan_decoders(std::size_t index, int block_size);
  void pair_pools(std::size_t precision);
  void pair(const PrefillOption& prefill, const DecodeOption& decode);
  std::optional<SearchPoint> split(const PrefillOption& prefill, const DecodeOption& decode, int makers, int takers);
  BatchLimit what_stops(const std::optional<SteadyState>& state) const;
  void keep(SearchPoint point, std::size_t slot);
  SearchPoint point_of(const Candidate& candidate, const StepShape& decode, std::int64_t batch, double rows,
                       int block_size) const;
  void set_rates(SearchPoint& point, double requests_s) const;
  Error why_nothing() const;

  const SearchRequest& request_;
  SearchSpace space_;
  Front front_;
  std::vector<SearchPoint> points_;
  std::vector<std::optional<SearchPoint>> best_;  // by candidate: aggregated, then as decoders
  std::vector<std::vector<DecodeOption>> decoders_;
  std::int64_t evaluated_ = 0, pruned_ = 0;
  std::optional<SearchPoint> fastest_, promptest_;  // whatever the objectives
};

BatchLimit Search::what_stops(const std::optional<SteadyState>& state) const {
  if (!state) return BatchLimit::kPrefill;
  if (request_.tpot_ms && state->tpot_s * 1e3 > *request_.tpot_ms) return BatchLimit::kTpot;
  if (request_.ttft_ms && state->ttft_s * 1e3 > *request_.ttft_ms) return BatchLimit::kTtft;
  return BatchLimit::kNothing;
}

SearchPoint Search::point_of(const Candidate& candidate, const StepShape& decode, std::int64_t batch, double rows,
                             int block_size) const {
  SearchPoint point;
  point.deployment.serving.layout = candidate.layout;
  point.precision = request_.precisions[candidate.precision];
  point.batch = batch;
  point.block_size = block_size;
  point.memory = candidate.model->memory(rows);
  point.kv_bytes = space_.kv_need_of(candidate, batch, block_size);
  point.parts = candidate.model->parts(decode);
  point.binds = largest(point.parts);
  return point;
}

void Search::set_rates(SearchPoint& point, double requests_s) const {
  const auto& workload = request_.workload;
  const double devices = point.deployment.devices();
  point.requests_s = requests_s;
  point.user_tokens_s = 1e3 / point.tpot_ms;
  point.device_tokens_s = requests_s * workload.output_tokens / devices;
  if (request_.price_per_device_hour > 0) {
    const double million_s = 1e6 / point.device_tokens_s;
    point.cost_output = request_.price_per_device_hour / 3600 * million_s;
    point.cost_all = point.cost_output * workload.output_tokens / (workload.output_tokens + workload.input_tokens);
  }
}

void Search::keep(SearchPoint point, std::size_t slot) {
  if (!fastest_ || point.tpot_ms < fastest_->tpot_ms) fastest_ = point;
  if (!promptest_ || point.ttft_ms < promptest_->ttft_ms) promptest_ = point;
  if (request_.tpot_ms && point.tpot_ms > *request_.tpot_ms) return;
  if (request_.ttft_ms && point.ttft_ms > *request_.ttft_ms) return;
  auto& best = best_[slot];
  if (!best || point.device_tokens_s > best->device_tokens_s) best = point;
  if (front_.covers(point.user_tokens_s, point.device_tokens_s)) return;
  front_.add(point.user_tokens_s, point.device_tokens_s);
  points_.push_back(std::move(point));
}

void Search::scan_aggregated(std::size_t index, int batch_tokens, int block_size) {
  const Candidate& candidate = space_.candidates()[index];
  const std::int64_t unit = candidate.unit();
  const auto state_at = [&](std::int64_t units) {
    ++evaluated_;
    return aggregated_steady_state(*candidate.model, candidate.layout, request_.workload, units * unit, batch_tokens,
                                   block_size);
  };
  const std::int64_t fits = space_.most_units(candidate, batch_tokens, block_size);
  if (fits == 0) return;
  // The largest batch that holds the objectives; step times grow with the batch, so bisection finds it.
  std::int64_t most = fits;
  BatchLimit limit =
      fits * unit >= request_.max_batch * candidate.layout.dp ? BatchLimit::kMaxBatch : BatchLimit::kKvCapacity;
  if (const auto stop = what_stops(state_at(fits)); stop != BatchLimit::kNothing) {
    limit = stop;
    std::int64_t good = 0, bad = fits;
    while (bad - good > 1) {
      const std::int64_t middle = good + (bad - good) / 2;
      const auto stops = what_stops(state_at(middle));
      (stops == BatchLimit::kNothing ? good : bad) = middle;
      if (stops != BatchLimit::kNothing) limit = stops;
    }
    most = std::max<std::int64_t>(1, good);  // one is looked at in any case: it says how far off the objectives are
  }
  auto& best = best_[index];
  for (const std::int64_t units : batch_ladder(most)) {
    const std::int64_t batch = units * unit;
    // Without any prompt the pass is as fast as it can be: if even that is nothing new, nothing with this batch is.
    const double least_s = space_.decode_s(candidate, units);
    const double device_bound = output_rate(request_.workload, batch, least_s) / candidate.layout.devices();
    if (best && device_bound <= best->device_tokens_s && front_.covers(1 / least_s, device_bound)) {
      ++pruned_;
      continue;
    }
    const auto state = state_at(units);
    if (!state) continue;
    SearchPoint point = point_of(candidate, state->decode, batch, batch_tokens, block_size);
    point.batch_tokens = batch_tokens;
    point.deployment.serving.instances = std::max(1, request_.max_devices / candidate.layout.devices());
    point.ttft_ms = state->ttft_s * 1e3;
    point.tpot_ms = state->tpot_s * 1e3;
    point.limit = units == most ? limit : BatchLimit::kNothing;
    set_rates(point, point.deployment.serving.instances * request_rate(request_.workload, batch, state->tpot_s));
    keep(std::move(point), index);
  }
}

void Search::scan_decoders(std::size_t index, int block_size) {
  const Candidate& candidate = space_.candidates()[index];
  const std::int64_t fits = space_.most_units(candidate, 0, block_size);
  if (fits == 0 || candidate.layout.devices() >= request_.max_devices) return;
  std::int64_t most = fits;
  BatchLimit limit = fits * candidate.unit() >= request_.max_batch * candidate.layout.dp ? BatchLimit::kMaxBatch
                                                                                         : BatchLimit::kKvCapacity;
  const auto too_slow = [&](std::int64_t units) {
    return request_.tpot_ms && space_.decode_s(candidate, units) * 1e3 > *request_.tpot_ms;
  };
  if (too_slow(most)) {
    limit = BatchLimit::kTpot;
    std::int64_t good = 0;
    while (most - good > 1) {
      const std::int64_t middle = good + (most - good) / 2;
      (too_slow(middle) ? most : good) = middle;
    }
    most = std::max<std::int64_t>(1, good);
  }
  for (const std::int64_t units : batch_ladder(most)) {
    const double tpot_s = space_.decode_s(candidate, units);
    const std::int64_t batch = units * candidate.unit();
    decoders_[candidate.precision].push_back({.candidate = index,
                                              .block_size = block_size,
                                              .batch = batch,
                                              .devices = candidate.layout.devices(),
                                              .tpot_s = tpot_s,
                                              .requests_s = request_rate(request_.workload, batch, tpot_s),
                                              .limit = units == most ? limit : BatchLimit::kNothing});
  }
}

// One split of a pool of prompts and a pool of decoders; nullopt: it can be neither on the front nor the best of its
// layout.
std::optional<SearchPoint> Search::split(const PrefillOption& prefill, const DecodeOption& decode, int makers,
                                         int takers) {
  const Candidate& maker = space_.candidates()[prefill.candidate];
  const Candidate& taker = space_.candidates()[decode.candidate];
  const auto& workload = request_.workload;
  const int devices = makers * prefill.devices + takers * decode.devices;
  const double moved_s = space_.handover_s(*taker.model, makers * prefill.devices, takers * decode.devices, devices);
  const double from_links = moved_s > 0 ? 1 / moved_s : 1e30;
  const double rate =
      std::min({makers * most_prefill_share() * prefill.requests_s, takers * decode.requests_s, from_links});
  ++evaluated_;
  const double device_rate = rate * workload.output_tokens / devices;
  const auto& best = best_[space_.candidates().size() + decode.candidate];
  if (best && device_rate <= best->device_tokens_s && front_.covers(1 / decode.tpot_s, device_rate)) {
    ++pruned_;
    return std::nullopt;
  }
  const auto steady = decode_steady_state(*taker.model, taker.layout, workload, decode.batch);
  SearchPoint point =
      point_of(taker, steady.decode, decode.batch, static_cast<double>(decode.batch / taker.unit()), decode.block_size);
  point.deployment.disaggregated = true;
  point.deployment.prefill = {maker.layout, makers};
  point.deployment.serving.instances = takers;
  point.batch_tokens = prefill.batch_tokens;
  // Layers are handed over while later ones are computed: the last one is not, nor what the links cannot keep up with.
  const double one_s = space_.handover_s(*taker.model, prefill.devices, decode.devices, devices);
  const double exposed_s = std::max(one_s / request_.layers, one_s - prefill.service_s);
  const double share = rate / (makers * prefill.requests_s);
  point.ttft_ms = 1e3 * (prefill.service_s + queue_wait(share, prefill.service_s, makers) + exposed_s + decode.tpot_s);
  point.tpot_ms = decode.tpot_s * 1e3;
  point.limit = rate < takers * decode.requests_s ? BatchLimit::kPrefill : decode.limit;
  if (rate == from_links) point.binds = Resource::kLinks;
  set_rates(point, rate);
  return point;
}

void Search::pair(const PrefillOption& prefill, const DecodeOption& decode) {
  const double capacity = most_prefill_share() * prefill.requests_s;
  for (int makers = 1; makers * prefill.devices + decode.devices <= request_.max_devices; ++makers) {
    const int room = (request_.max_devices - makers * prefill.devices) / decode.devices;
    // Beside the number that the prompts feed exactly, only the next one can be best; fewer leave the prompts less
    // busy, which counts where the TTFT is bounded.
    const int below = std::clamp(static_cast<int>(std::min(makers * capacity / decode.requests_s, 1e6)), 1, room);
    for (int takers = std::min(below + 1, room); takers >= 1; --takers) {
      auto point = split(prefill, decode, makers, takers);
      const bool too_late = point && request_.ttft_ms && point->ttft_ms > *request_.ttft_ms;
      if (point) keep(std::move(*point), space_.candidates().size() + decode.candidate);
      if (takers <= below && !too_late) break;
    }
  }
}

void Search::pair_pools(std::size_t precision) {
  const auto prefills = space_.prefill_options(precision);
  const auto decoders = decoder_front(std::move(decoders_[precision]));
  for (const auto& decode : decoders) {
    for (const auto& prefill : prefills) {
      // Blocks are handed over as they are.
      if (prefill.block_size == decode.block_size) pair(prefill, decode);
    }
  }
}

Result<SearchResult> Search::run() {
  if (!space_.any_fits()) {
    return tl::unexpected(Error{ErrorCode::kUnsupported, space_.nothing_fits(), "devices"});
  }
  decoders_.resize(request_.precisions.size());
  // Without a prefix cache nothing speaks for larger blocks but the hand-over, which does not count them.
  const std::size_t blocks = request_.workload.cached_fraction > 0 ? request_.block_sizes.size() : 1;
  for (std::size_t index = 0; index < space_.candidates().size(); ++index) {
    for (std::size_t block = 0; block < blocks; ++block) {
      const int block_size = request_.block_sizes[block];
      for (const int tokens : request_.batch_tokens) {
        if (request_.aggregated) scan_aggregated(index, tokens, block_size);
      }
      if (request_.disaggregated) scan_decoders(index, block_size);
    }
  }
  if (request_.disaggregated) {
    for (std::size_t precision = 0; precision < request_.precisions.size(); ++precision) pair_pools(precision);
  }
  SearchResult result;
  result.refusals = space_.refusals();
  result.evaluated = evaluated_ + space_.evaluated();
  result.pruned = pruned_;
  result.front = std::move(points_);
  keep_front(result.front);
  if (result.front.empty()) return tl::unexpected(why_nothing());
  for (auto& best : best_) {
    if (best) result.best.push_back(std::move(*best));
  }
  std::stable_sort(result.best.begin(), result.best.end(),
                   [](const auto& a, const auto& b) { return a.device_tokens_s > b.device_tokens_s; });
  return result;
}

std::string describe(const SearchPoint& point) {
  const auto& parts = point.parts;
  return fmt::format("{}{}, {}, batch {} (memory {:.2f} ms, compute {:.2f} ms, links {:.2f} ms, fixed {:.2f} ms)",
                     point.deployment.disaggregated ? "disaggregated, decoding on " : "",
                     point.deployment.serving.layout.name(), point.precision.name(), point.batch, parts.memory_s * 1e3,
                     parts.compute_s * 1e3, parts.links_s * 1e3, parts.fixed_s * 1e3);
}

Error Search::why_nothing() const {
  if (!fastest_) {
    return {ErrorCode::kUnsupported,
            fmt::format("no batch can be kept decoding: {} prompt tokens for each token of output are more than the "
                        "passes of any layout take; give a larger --batch-tokens, or a longer output",
                        request_.workload.computed_tokens(1) / (request_.workload.output_tokens - 1)),
            "input"};
  }
  if (request_.tpot_ms && fastest_->tpot_ms > *request_.tpot_ms) {
    return {ErrorCode::kUnsupported,
            fmt::format("a TPOT of {} ms is below one step: the fastest is {:.2f} ms on {}. Give more or faster "
                        "devices, fewer bits, or a longer TPOT",
                        *request_.tpot_ms, fastest_->tpot_ms, describe(*fastest_)),
            "tpot_ms"};
  }
  if (request_.ttft_ms && promptest_->ttft_ms > *request_.ttft_ms) {
    return {ErrorCode::kUnsupported,
            fmt::format("a TTFT of {} ms is below what a prompt of {} tokens takes: the shortest is {:.1f} ms on {}. "
                        "Give more or faster devices, a larger --cached, or a longer TTFT",
                        *request_.ttft_ms, request_.workload.input_tokens, promptest_->ttft_ms, describe(*promptest_)),
            "ttft_ms"};
  }
  return {ErrorCode::kUnsupported,
          fmt::format("each objective can be held, but not both: TPOT {:.2f} ms comes with TTFT {:.1f} ms on {}, and "
                      "TTFT {:.1f} ms with TPOT {:.2f} ms on {}",
                      fastest_->tpot_ms, fastest_->ttft_ms, describe(*fastest_), promptest_->ttft_ms,
                      promptest_->tpot_ms, describe(*promptest_)),
          "ttft_ms"};
}

Status check(bool ok, const char* field, double found, const char* expected) {
  if (ok) return {};
  return fail_at(field, ErrorCode::kInvalidArgument, "{} is {}, not {}", field, found, expected);
}

Status check_request(const SearchRequest& request) {
  const auto& workload = request.workload;
  const auto within = [](double value, double least, double most) { return value >= least && value <= most; };
  WEIR_RETURN_IF_ERROR(check(within(workload.input_tokens, 1, 1e8), "input", workload.input_tokens, "1 to 1e8 tokens"));
  WEIR_RETURN_IF_ERROR(
      check(within(workload.output_tokens, 2, 1e8), "output", workload.output_tokens, "2 to 1e8 tokens"));
  WEIR_RETURN_IF_ERROR(
      check(within(workload.cached_fraction, 0, 1), "cached", workload.cached_fraction, "a fraction from 0 to 1"));
  WEIR_RETURN_IF_ERROR(
      check(within(request.max_devices, 1, kMostDevices), "devices", request.max_devices, "1 to 1024"));
  WEIR_RETURN_IF_ERROR(check(within(static_cast<double>(request.max_batch), 1, 1 << 20), "max_batch",
                             static_cast<double>(request.max_batch), "1 to 1048576"));
  WEIR_RETURN_IF_ERROR(
      check(within(request.price_per_device_hour, 0, 1e6), "price", request.price_per_device_hour, "0 to 1e6 an hour"));
  WEIR_RETURN_IF_ERROR(check(!request.tpot_ms || within(*request.tpot_ms, 1e-6, 1e9), "tpot_ms",
                             request.tpot_ms.value_or(0), "1e-6 to 1e9"));
  WEIR_RETURN_IF_ERROR(check(!request.ttft_ms || within(*request.ttft_ms, 1e-6, 1e9), "ttft_ms",
                             request.ttft_ms.value_or(0), "1e-6 to 1e9"));
  for (const int tokens : request.batch_tokens)
    WEIR_RETURN_IF_ERROR(check(within(tokens, 1, 1 << 20), "batch_tokens", tokens, "1 to 1048576"));
  for (const int size : request.block_sizes)
    WEIR_RETURN_IF_ERROR(check(within(size, 1, 1 << 16), "block_size", size, "1 to 65536"));
  const auto few = [](std::size_t count) { return count >= 1 && count <= 16; };
  const bool lists =
      few(request.batch_tokens.size()) && few(request.block_sizes.size()) && few(request.precisions.size());
  WEIR_RETURN_IF_ERROR(check(lists, "lists of sizes or precisions", 0, "1 to 16 long each"));
  return check(request.aggregated || request.disaggregated, "roles", 0, "aggregated, disaggregated or both");
}

}  // namespace

void keep_front(std::vector<SearchPoint>& points) {
  std::stable_sort(points.begin(), points.end(), [](const auto& a, const auto& b) {
    if (a.user_tokens_s != b.user_tokens_s) return a.user_tokens_s > b.user_tokens_s;
    return a.device_tokens_s > b.device_tokens_s;
  });
  double best = -1;
  std::erase_if(points, [&](const SearchPoint& point) {
    if (point.device_tokens_s <= best) return true;
    best = point.device_tokens_s;
    return false;
  });
}

Result<SearchResult> search_deployments(const InstanceSource& source, const SearchRequest& request) {
  WEIR_RETURN_IF_ERROR(check_request(request));
  return Search(source, request).run();
}

}  // namespace weir::plan
