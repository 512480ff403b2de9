#include "backend/cpu/ops/route.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/check.h"

namespace weir::backend::cpu {
namespace {

constexpr float kNothing = -std::numeric_limits<float>::infinity();

// In place. A row of -infinity or NaN stays useless, as the rest of the model's numbers then are.
void softmax(float* x, std::int64_t n) {
  const float top = *std::max_element(x, x + n);
  float sum = 0.0f;
  for (std::int64_t i = 0; i < n; ++i) sum += x[i] = std::exp(x[i] - top);
  for (std::int64_t i = 0; i < n; ++i) x[i] /= sum;
}

// The place of the largest of n values, the first one of equals; -1 where all are -infinity or NaN.
std::int64_t best_of(const float* x, std::int64_t n) {
  std::int64_t best = -1;
  for (std::int64_t i = 0; i < n; ++i) {
    if (x[i] > (best < 0 ? kNothing : x[best])) best = i;
  }
  return best;
}

float best_two(const float* x, std::int64_t n) {
  float first = kNothing, second = kNothing;
  for (std::int64_t i = 0; i < n; ++i) {
    if (x[i] > first) {
      second = first;
      first = x[i];
    } else if (x[i] > second) {
      second = x[i];
    }
  }
  return first + second;
}

struct Scratch {
  std::vector<float> scores, ranks, groups;
};

// Takes the experts of all but the best groups out of the ranking.
void keep_best_groups(const RouteCall& call, Scratch& s) {
  const auto size = static_cast<std::int64_t>(s.ranks.size()) / call.groups;
  s.groups.resize(static_cast<std::size_t>(call.groups));
  for (int g = 0; g < call.groups; ++g) {
    const float* ranks = s.ranks.data() + g * size;
    s.groups[static_cast<std::size_t>(g)] =
        call.group_by_two ? best_two(ranks, size) : *std::max_element(ranks, ranks + size);
  }
  std::vector<float>& left = s.groups;
  for (int used = 0; used < call.groups_used; ++used) {
    const std::int64_t best = best_of(left.data(), call.groups);
    if (best >= 0) left[static_cast<std::size_t>(best)] = std::numeric_limits<float>::quiet_NaN();  // taken
  }
  for (int g = 0; g < call.groups; ++g) {
    if (!std::isnan(left[static_cast<std::size_t>(g)])) std::fill_n(s.ranks.begin() + g * size, size, kNothing);
  }
}

void route_row(const RouteCall& call, std::int64_t row, Scratch& s) {
  const std::int64_t experts = call.logits.cols, used = call.experts.cols;
  const float* logits = call.logits.row(row);
  s.scores.assign(logits, logits + experts);
  if (call.scores == RouteCall::Scores::kSoftmax) softmax(s.scores.data(), experts);
  if (call.scores == RouteCall::Scores::kSigmoid) {
    for (float& score : s.scores) score = 1.0f / (1.0f + std::exp(-score));
  }
  s.ranks = s.scores;
  for (std::int64_t e = 0; call.correction != nullptr && e < experts; ++e)
    s.ranks[static_cast<std::size_t>(e)] += call.correction[e];
  if (call.groups > 1) keep_best_groups(call, s);

  std::int32_t* chosen = call.experts.row(row);
  float* weights = call.weights.row(row);
  float sum = 0.0f;
  for (std::int64_t i = 0; i < used; ++i) {
    const std::int64_t best = best_of(s.ranks.data(), experts);
    chosen[i] = static_cast<std::int32_t>(best);
    weights[i] = best < 0 ? 0.0f : s.scores[static_cast<std::size_t>(best)];
    if (best >= 0) s.ranks[static_cast<std::size_t>(best)] = kNothing;
    sum += weights[i];
  }
  if (call.scores == RouteCall::Scores::kSoftmaxOfChosen) {
    softmax(weights, used);
  } else if (call.normalise) {
    for (std::int64_t i = 0; i < used; ++i) weights[i] /= std::max(sum, call.sum_floor);
  }
  for (std::int64_t i = 0; i < used; ++i) weights[i] *= call.scale;
}

}  // namespace

void route(ThreadPool& pool, const RouteCall& call) {
  const std::int64_t rows = call.logits.rows, experts = call.logits.cols;
  CHECK(call.experts.rows == rows && call.weights.rows == rows && call.weights.cols == call.experts.cols,
        "{} rows of logits, {} x {} experts, {} x {} weights", rows, call.experts.rows, call.experts.cols,
        call.weights.rows, call.weights.cols);
  CHECK(call.experts.cols >= 1 && call.experts.cols <= experts, "{} of {} experts", call.experts.cols, experts);
  CHECK(call.groups >= 1 && experts % call.groups == 0 && call.groups_used >= 1 && call.groups_used <= call.groups &&
            experts / call.groups * call.groups_used >= call.experts.cols,
        "{} of {} groups of {} experts", call.groups_used, call.groups, experts);
  pool.run([&](int worker, int workers) {
    thread_local Scratch scratch;
    const std::int64_t begin = rows * worker / workers, end = rows * (worker + 1) / workers;
    for (std::int64_t row = begin; row < end; ++row) route_row(call, row, scratch);
  });
}

}  // namespace weir::backend::cpu
