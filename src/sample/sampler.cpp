#include "sample/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/rng.h"

namespace weir::sample {
namespace {

// Below this, vLLM and we take the most likely token instead of dividing by almost nothing.
constexpr float kGreedyTemperature = 1e-5f;

constexpr float kNever = -std::numeric_limits<float>::infinity();

// Candidates looked at first for top_p; doubled until they hold the mass. Real distributions need a few dozen.
constexpr std::size_t kFirstTopPCandidates = 256;

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

std::optional<TokenId> Sampler::sample(std::span<float> logits, std::int64_t position) {
  apply_bias_and_penalties(logits);
  float max = kNever;
  std::size_t best = 0;
  bool has_nan = false;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    has_nan |= logits[i] != logits[i];
    if (logits[i] > max) {
      max = logits[i];
      best = i;
    }
  }
  if (has_nan || !std::isfinite(max)) return std::nullopt;
  if (params_.temperature < kGreedyTemperature) return static_cast<TokenId>(best);
  return draw(logits, max, position);
}

TokenId Sampler::draw(std::span<float> logits, float max, std::int64_t position) {
  // Everything is relative to the best token, whose value is 1. min_p is a cut in the same unit.
  const float floor = std::max(params_.min_p, std::numeric_limits<float>::min());
  candidates_.clear();
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const float p = std::exp((logits[i] - max) / params_.temperature);
    if (p >= floor) candidates_.push_back({p, static_cast<TokenId>(i)});
  }
  const auto better = [](const Candidate& a, const Candidate& b) {
    return a.probability > b.probability || (a.probability == b.probability && a.id < b.id);
  };
  const auto first = candidates_.begin();
  const auto keep_best = [&](std::size_t n) {  // the n best, in no particular order, to the front
    if (n < candidates_.size())
      std::nth_element(first, first + static_cast<std::ptrdiff_t>(n), candidates_.end(), better);
  };
  if (params_.top_k > 0 && static_cast<std::size_t>(params_.top_k) < candidates_.size()) {
    keep_best(static_cast<std::size_t>(params_.top_k));
    candidates_.resize(static_cast<std::size_t>(params_.top_k));
    std::sort(candidates_.begin(), candidates_.end(),
              [](const Candidate& a, const Candidate& b) { return a.id < b.id; });
  }
  double total = 0.0;
  for (const Candidate& c : candidates_) total += c.probability;

  if (params_.top_p < 1.0f) {  // the fewest best candidates that hold top_p of the mass
    const double wanted = static_cast<double>(params_.top_p) * total;
    for (std::size_t n = kFirstTopPCandidates;; n *= 2) {
      n = std::min(n, candidates_.size());
      keep_best(n);
      std::sort(candidates_.begin(), candidates_.begin() + static_cast<std::ptrdiff_t>(n), better);
      double mass = 0.0;
      std::size_t kept = 0;
      while (kept < n && mass < wanted) mass += candidates_[kept++].probability;
      if (mass >= wanted || n == candidates_.size()) {
        candidates_.resize(std::max<std::size_t>(kept, 1));
        total = mass;
        break;
      }
    }
  }

  double left = uniform(params_.seed, static_cast<std::uint64_t>(position)) * total;
  for (const Candidate& c : candidates_) {
    left -= c.probability;
    if (left < 0) return c.id;
  }
  return candidates_.back().id;  // rounding at the very end of the distribution
}

}  // namespace weir::sample
