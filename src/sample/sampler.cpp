#include "sample/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/rng.h"
#include "sample/row_math.h"

namespace weir::sample {
namespace {

// Below this, vLLM and we take the most likely token instead of dividing by almost nothing.
constexpr float kGreedyTemperature = 1e-5f;

constexpr float kNever = -std::numeric_limits<float>::infinity();

// Candidates looked at first for top_p; doubled until they hold the mass. Real distributions need a few dozen.
constexpr std::size_t kFirstTopPCandidates = 256;

// Tokens at least this likely, relative to the best, are looked at first; then this times less likely ones, and so on.
constexpr float kFirstThreshold = 1.0f / 16;

using Candidate = SamplerScratch::Candidate;

}  // namespace

Sampler::Sampler(const SamplingParams& params, std::span<const TokenId> prompt, std::vector<TokenId> end_ids)
    : params_(params), end_ids_(std::move(end_ids)) {
  counts_tokens_ =
      params_.repetition_penalty != 1.0f || params_.presence_penalty != 0.0f || params_.frequency_penalty != 0.0f;
  if (params_.repetition_penalty != 1.0f) {
    for (const TokenId token : prompt) ++seen_[token];
  }
}

void Sampler::accept(TokenId token) {
  ++output_tokens_;
  if (!counts_tokens_) return;
  ++output_[token];
  ++seen_[token];
}

void Sampler::apply_bias_and_penalties(std::span<float> logits) const {
  const auto at = [&](TokenId id) -> float* {
    return id >= 0 && static_cast<std::size_t>(id) < logits.size() ? &logits[static_cast<std::size_t>(id)] : nullptr;
  };
  if (output_tokens_ < params_.min_tokens) {
    for (const TokenId id : end_ids_) {
      if (float* logit = at(id)) *logit = kNever;
    }
  }
  for (const auto& [id, bias] : params_.logit_bias) {
    if (float* logit = at(id)) *logit += bias;
  }
  if (params_.repetition_penalty != 1.0f) {
    for (const auto& [id, count] : seen_) {
      if (float* logit = at(id))
        *logit = *logit > 0 ? *logit / params_.repetition_penalty : *logit * params_.repetition_penalty;
    }
  }
  if (params_.presence_penalty != 0.0f || params_.frequency_penalty != 0.0f) {
    for (const auto& [id, count] : output_) {
      if (float* logit = at(id)) {
        *logit -= params_.frequency_penalty * static_cast<float>(count) + params_.presence_penalty;
      }
    }
  }
}

std::optional<TokenId> Sampler::sample(std::span<float> logits, std::int64_t position, SamplerScratch& scratch) {
  apply_bias_and_penalties(logits);
  const float max = row_max(logits);
  if (!std::isfinite(max)) return std::nullopt;
  if (params_.temperature < kGreedyTemperature) return static_cast<TokenId>(index_of(logits, max));
  // Everything is relative to the best token, whose value is 1. min_p is a cut in the same unit.
  exp_row(logits, max, params_.temperature, std::max(params_.min_p, std::numeric_limits<float>::min()));
  const double noise = uniform(params_.seed, static_cast<std::uint64_t>(position));
  if (params_.top_k <= 0 && params_.top_p >= 1.0f) return draw_from_all(logits, noise);
  return draw_from_best(logits, noise, scratch);
}

// The token where the running sum of `weights` passes noise * their sum.
TokenId Sampler::draw_from_all(std::span<const float> weights, double noise) const {
  double left = noise * mass_from(weights, std::numeric_limits<float>::min()).sum;
  std::size_t last = 0;  // with any weight: rounding may leave a rest at the very end
  for (std::size_t i = 0; i < weights.size(); i += kChunk) {
    const auto chunk = weights.subspan(i, std::min(kChunk, weights.size() - i));
    const double sum = chunk_sum(chunk);
    if (sum == 0) continue;
    for (std::size_t j = 0; j < chunk.size(); ++j) {
      if (chunk[j] > 0) last = i + j;
    }
    if (left >= sum) {
      left -= sum;
      continue;
    }
    for (std::size_t j = 0; j < chunk.size(); ++j) {
      left -= chunk[j];
      if (left < 0) return static_cast<TokenId>(i + j);
    }
    break;
  }
  return static_cast<TokenId>(last);
}

TokenId Sampler::draw_from_best(std::span<const float> weights, double noise, SamplerScratch& scratch) const {
  auto& candidates = scratch.candidates;
  const bool by_count = params_.top_k > 0;
  const Mass all = mass_from(weights, std::numeric_limits<float>::min());
  const std::size_t wanted_count = by_count ? std::min(all.count, static_cast<std::size_t>(params_.top_k)) : 0;
  const double wanted_mass = by_count ? 0.0 : static_cast<double>(params_.top_p) * all.sum;
  // The best are found below a falling threshold: real distributions need a few dozen candidates and two or three
  // steps.
  float least = kFirstThreshold;
  for (; least > std::numeric_limits<float>::min(); least *= kFirstThreshold) {
    const Mass mass = mass_from(weights, least);
    if (by_count ? mass.count >= wanted_count : mass.sum >= wanted_mass) break;
  }
  least = std::max(least, std::numeric_limits<float>::min());
  candidates.clear();
  candidates.reserve(weights.size());
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] >= least) candidates.push_back({weights[i], static_cast<TokenId>(i)});
  }
  const auto better = [](const Candidate& a, const Candidate& b) {
    return a.weight > b.weight || (a.weight == b.weight && a.id < b.id);
  };
  // The n best, sorted, to the front.
  const auto sort_best = [&](std::size_t n) {
    const auto middle = candidates.begin() + static_cast<std::ptrdiff_t>(n);
    if (n < candidates.size()) std::nth_element(candidates.begin(), middle, candidates.end(), better);
    std::sort(candidates.begin(), middle, better);
  };
  double total = all.sum;
  if (by_count) {
    sort_best(wanted_count);
    candidates.resize(wanted_count);
    total = 0;
    for (const Candidate& c : candidates) total += c.weight;
  }
  if (params_.top_p < 1.0f) {  // the fewest best candidates that hold top_p of the mass
    const double wanted = static_cast<double>(params_.top_p) * total;
    for (std::size_t n = kFirstTopPCandidates;; n *= 2) {
      n = std::min(n, candidates.size());
      if (!by_count) sort_best(n);
      double mass = 0.0;
      std::size_t kept = 0;
      while (kept < n && mass < wanted) mass += candidates[kept++].weight;
      if (mass >= wanted || n == candidates.size()) {
        candidates.resize(std::max<std::size_t>(kept, 1));
        total = mass;
        break;
      }
    }
  }
  double left = noise * total;
  for (const Candidate& c : candidates) {
    left -= c.weight;
    if (left < 0) return c.id;
  }
  return candidates.back().id;  // rounding at the very end of the distribution
}

}  // namespace weir::sample
