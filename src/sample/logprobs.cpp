#include "sample/logprobs.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "sample/row_math.h"

namespace weir::sample {

PositionLogprobs row_logprobs(std::span<const float> logits, TokenId chosen, int top) {
  CHECK(chosen >= 0 && static_cast<std::size_t>(chosen) < logits.size(), "chosen={} vocab={}", chosen, logits.size());
  const float max = row_max(logits);
  const double log_sum = std::log(sum_exp(logits, max));
  const auto logprob = [&](TokenId id) {
    return static_cast<float>(static_cast<double>(logits[static_cast<std::size_t>(id)] - max) - log_sum);
  };

  PositionLogprobs result;
  const float chosen_logit = logits[static_cast<std::size_t>(chosen)];
  result.chosen = {chosen, logprob(chosen), static_cast<int>(count_above(logits, chosen_logit)) + 1};

  const auto k = static_cast<std::size_t>(std::clamp<std::int64_t>(top, 0, static_cast<std::int64_t>(logits.size())));
  if (k == 0) return result;
  // A heap of the k best so far, the worst of them at the front; ascending ids keep the lower one on ties.
  const auto better = [&](TokenId a, TokenId b) {
    const float x = logits[static_cast<std::size_t>(a)], y = logits[static_cast<std::size_t>(b)];
    return x > y || (x == y && a < b);
  };
  std::vector<TokenId> best;
  best.reserve(k);
  for (TokenId id = 0; static_cast<std::size_t>(id) < logits.size(); ++id) {
    if (best.size() < k) {
      best.push_back(id);
      std::push_heap(best.begin(), best.end(), better);
    } else if (logits[static_cast<std::size_t>(id)] > logits[static_cast<std::size_t>(best.front())]) {
      std::pop_heap(best.begin(), best.end(), better);
      best.back() = id;
      std::push_heap(best.begin(), best.end(), better);
    }
  }
  std::sort_heap(best.begin(), best.end(), better);
  for (std::size_t i = 0; i < best.size(); ++i) {
    result.top.push_back({best[i], logprob(best[i]), static_cast<int>(i) + 1});
  }
  return result;
}

}  // namespace weir::sample
