// fit_steps(): the coefficients of a CalibratedStep from steps that were measured.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "plan/calibrated_step.h"

namespace weir::plan {
namespace {

// Where kernels may change form: every small number of rows, then twelve to a factor of ten.
constexpr double kKnots[] = {0,  1,  2,  3,   4,   5,   6,   8,   10,  12,  16,  20,  24,   32,   40,   48,
                             64, 80, 96, 128, 160, 192, 256, 320, 384, 512, 640, 768, 1024, 1536, 2048, 4096};
// Of rows of logits: few, because in steps that only decode they are as many as all rows, and what is whose is told
// apart by the other steps alone.
constexpr double kSampleKnots[] = {1, 4, 16, 64, 256, 1024};
// A knot without this much support (in samples) is left to its neighbours.
constexpr double kSupport = 4;
constexpr std::size_t kMinSamples = 20;
constexpr int kRounds = 4;             // of fitting and leaving out
constexpr double kFarOff = 6;          // times the median error ...
constexpr double kLeastFarOff = 0.15;  // ... and this much, to be left out
constexpr double kMostDropped = 0.1;
constexpr double kLongestInterrupt_s = 0.1;  // what is longer does not come again in every minute

// The two knots around x and their weights.
struct Hat {
  std::size_t below = 0, above = 0;
  double upper = 0;  // weight of `above`
};
Hat hat(const std::vector<double>& knots, double x) {
  if (knots.size() == 1) return {};
  const auto it = std::upper_bound(knots.begin() + 1, knots.end() - 1, x);
  const auto above = static_cast<std::size_t>(it - knots.begin());
  return {above - 1, above, (x - knots[above - 1]) / (knots[above] - knots[above - 1])};
}

// Knots that the values support; the first and last value are within them.
std::vector<double> choose_knots(std::span<const double> candidates, const std::vector<double>& values) {
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  std::vector<double> knots;
  for (const double knot : candidates) {
    if (knot >= *least && knot <= *most) knots.push_back(knot);
  }
  if (knots.empty() || knots.front() > *least) knots.insert(knots.begin(), *least);
  if (knots.back() < *most) knots.push_back(*most);
  while (knots.size() > 2) {
    std::vector<double> support(knots.size());
    for (const double x : values) {
      const Hat h = hat(knots, x);
      support[h.below] += 1 - h.upper;
      support[h.above] += h.upper;
    }
    const auto weakest = std::min_element(support.begin() + 1, support.end() - 1);
    if (*weakest >= kSupport) break;
    knots.erase(knots.begin() + (weakest - support.begin()));
  }
  return knots;
}

// Columns of the fit: rows at their knots, samples at their knots but 0, sequences, pairs of prefill and of decoding.
class Fit {
 public:
  explicit Fit(std::span<const StepSample> samples) : samples_(samples), used_(samples.size(), true) {
    std::vector<double> rows, sampled;
    for (const StepSample& sample : samples) {
      rows.push_back(static_cast<double>(sample.shape.tokens));
      sampled.push_back(static_cast<double>(sample.shape.samples));
    }
    row_knots_ = choose_knots(kKnots, rows);
    sample_knots_ = choose_knots(kSampleKnots, sampled);
    if (sample_knots_.front() > 0) sample_knots_.insert(sample_knots_.begin(), 0.0);
    columns_ = row_knots_.size() + sample_knots_.size() - 1 + 3;
  }

  void solve() {
    std::vector<double> gram(columns_ * columns_), moment(columns_), row(columns_);
    for (std::size_t i = 0; i < samples_.size(); ++i) {
      if (!used_[i]) continue;
      fill(samples_[i].shape, row);
      for (double& x : row) x /= samples_[i].seconds;
      for (std::size_t a = 0; a < columns_; ++a) {
        if (row[a] == 0) continue;
        moment[a] += row[a];
        for (std::size_t b = 0; b < columns_; ++b) gram[a * columns_ + b] += row[a] * row[b];
      }
    }
    solution_ = non_negative_least_squares(gram, moment);
  }

  // Relative errors of all samples.
  std::vector<double> errors() const {
    std::vector<double> out;
    const CalibratedStep model(coefficients());
    for (const StepSample& sample : samples_) out.push_back(model.step_s(sample.shape) / sample.seconds - 1);
    return out;
  }

  // False: nobody leaves.
  bool leave_out() {
    const std::vector<double> all = errors();
    std::vector<double> sizes;
    for (const double e : all) sizes.push_back(std::abs(e));
    std::vector<double> ascending = sizes;
    std::sort(ascending.begin(), ascending.end());
    const auto n = static_cast<double>(ascending.size());
    const double limit = std::max({kFarOff * ascending[ascending.size() / 2], kLeastFarOff,
                                   ascending[static_cast<std::size_t>(n * (1 - kMostDropped))]});
    bool changed = false;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const bool use = sizes[i] <= limit;
      changed |= use != used_[i];
      used_[i] = use;
    }
    return changed;
  }

  // Times are made to add up, those of interrupted steps among them: a least relative error is a little low where times
  // scatter, and what interrupts a machine now will do so again.
  FitQuality finish() {
    double measured = 0, fitted = 0;
    const CalibratedStep model(coefficients());
    for (std::size_t i = 0; i < samples_.size(); ++i) {
      const double seconds = model.step_s(samples_[i].shape);
      measured += std::min(samples_[i].seconds, seconds + kLongestInterrupt_s);
      fitted += seconds;
    }
    const double scale = fitted > 0 ? measured / fitted : 1;
    for (double& x : solution_) x *= scale;
    FitQuality quality;
    quality.steps = static_cast<std::int64_t>(samples_.size());
    quality.mean_bias = 1 / scale - 1;
    std::vector<double> sizes;
    const std::vector<double> all = errors();
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (used_[i]) sizes.push_back(std::abs(all[i]));
    }
    quality.dropped = quality.steps - static_cast<std::int64_t>(sizes.size());
    std::sort(sizes.begin(), sizes.end());
    quality.median_error = sizes[sizes.size() / 2];
    quality.p90_error = sizes[sizes.size() * 9 / 10];
    return quality;
  }

  StepCoefficients coefficients() const {
    StepCoefficients out;
    std::size_t at = 0;
    out.rows_s.at = row_knots_;
    for (std::size_t i = 0; i < row_knots_.size(); ++i) out.rows_s.value.push_back(solution_[at++]);
    out.samples_s.at = sample_knots_;
    out.samples_s.value.push_back(0);  // no samples, no cost
    for (std::size_t i = 1; i < sample_knots_.size(); ++i) out.samples_s.value.push_back(solution_[at++]);
    out.sequence_s = solution_[at];
    out.prefill_pair_s = solution_[at + 1];
    out.decode_pair_s = solution_[at + 2];
    return out;
  }

 private:
  void fill(const StepShape& shape, std::vector<double>& row) const {
    std::fill(row.begin(), row.end(), 0.0);
    const Hat rows = hat(row_knots_, static_cast<double>(shape.tokens));
    row[rows.below] += 1 - rows.upper;
    row[rows.above] += rows.upper;
    const std::size_t first = row_knots_.size() - 1;  // the column of sample knot 0, which has none
    if (sample_knots_.size() > 1) {
      const Hat samples = hat(sample_knots_, static_cast<double>(shape.samples));
      if (samples.below > 0) row[first + samples.below] += 1 - samples.upper;
      row[first + samples.above] += samples.upper;
    }
    const std::size_t rest = first + sample_knots_.size();
    row[rest] = static_cast<double>(shape.sequences);
    row[rest + 1] = shape.attended - shape.decode_attended;
    row[rest + 2] = shape.decode_attended;
  }

  std::span<const StepSample> samples_;
  std::vector<bool> used_;
  std::vector<double> row_knots_, sample_knots_;
  std::size_t columns_ = 0;
  std::vector<double> solution_;
};

// Solves the equations of the columns in `set`; Cholesky with a little on the diagonal, so that columns that say the
// same share the weight.
std::vector<double> solve_subset(const std::vector<double>& gram, const std::vector<double>& moment,
                                 const std::vector<std::size_t>& set) {
  constexpr double kRidge = 1e-10;
  const std::size_t n = moment.size(), m = set.size();
  std::vector<double> lower(m * m), x(m);
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      double sum = gram[set[i] * n + set[j]] * (i == j ? 1 + kRidge : 1.0);
      for (std::size_t k = 0; k < j; ++k) sum -= lower[i * m + k] * lower[j * m + k];
      lower[i * m + j] = i == j ? std::sqrt(std::max(sum, 1e-300)) : sum / lower[j * m + j];
    }
  }
  for (std::size_t i = 0; i < m; ++i) {
    double sum = moment[set[i]];
    for (std::size_t k = 0; k < i; ++k) sum -= lower[i * m + k] * x[k];
    x[i] = sum / lower[i * m + i];
  }
  for (std::size_t i = m; i-- > 0;) {
    for (std::size_t k = i + 1; k < m; ++k) x[i] -= lower[k * m + i] * x[k];
    x[i] /= lower[i * m + i];
  }
  return x;
}

}  // namespace

std::vector<double> non_negative_least_squares(const std::vector<double>& given_gram,
                                               const std::vector<double>& given_moment) {
  const std::size_t n = given_moment.size();
  CHECK(given_gram.size() == n * n, "{} numbers for {} columns", given_gram.size(), n);
  // Columns of length 1: theirs may differ by many powers of ten.
  std::vector<double> gram = given_gram, moment = given_moment, length(n, 1.0);
  for (std::size_t i = 0; i < n; ++i)
    if (gram[i * n + i] > 0) length[i] = std::sqrt(gram[i * n + i]);
  for (std::size_t i = 0; i < n; ++i) {
    moment[i] /= length[i];
    for (std::size_t j = 0; j < n; ++j) gram[i * n + j] /= length[i] * length[j];
  }
  std::vector<double> x(n, 0.0);
  std::vector<std::size_t> set;
  std::vector<bool> in(n, false);
  const double tolerance = 1e-10 * (1 + *std::max_element(moment.begin(), moment.end()));
  for (std::size_t round = 0; round < 3 * n + 10; ++round) {
    std::size_t best = n;
    double steepest = tolerance;
    for (std::size_t i = 0; i < n; ++i) {
      if (in[i] || gram[i * n + i] <= 0) continue;
      double slope = moment[i];
      for (std::size_t j = 0; j < n; ++j) slope -= gram[i * n + j] * x[j];
      if (slope > steepest) {
        steepest = slope;
        best = i;
      }
    }
    if (best == n) break;
    in[best] = true;
    set.push_back(best);
    while (true) {
      const std::vector<double> z = solve_subset(gram, moment, set);
      double step = 1;
      for (std::size_t k = 0; k < set.size(); ++k)
        if (z[k] <= 0) step = std::min(step, x[set[k]] / (x[set[k]] - z[k]));
      const bool whole = std::all_of(z.begin(), z.end(), [](double v) { return v > 0; });
      for (std::size_t k = 0; k < set.size(); ++k) x[set[k]] += whole ? z[k] - x[set[k]] : step * (z[k] - x[set[k]]);
      if (whole) break;
      std::erase_if(set, [&](std::size_t i) {
        if (x[i] > 1e-14) return false;
        x[i] = 0;
        in[i] = false;
        return true;
      });
      if (set.empty()) break;
    }
  }
  for (std::size_t i = 0; i < n; ++i) x[i] /= length[i];
  return x;
}

Result<CalibratedStep> fit_steps(std::span<const StepSample> samples) {
  if (samples.size() < kMinSamples)
    return fail(ErrorCode::kInvalidArgument, "{} steps were measured; a step model needs at least {}", samples.size(),
                kMinSamples);
  for (const StepSample& sample : samples) {
    if (!(sample.seconds > 0) || !std::isfinite(sample.seconds) || sample.shape.tokens < 1)
      return fail(ErrorCode::kInvalidArgument, "a step of {} rows took {:g} s: that cannot be fitted",
                  sample.shape.tokens, sample.seconds);
  }
  Fit fit(samples);
  fit.solve();
  for (int round = 0; round < kRounds && fit.leave_out(); ++round) fit.solve();
  const FitQuality quality = fit.finish();
  CalibratedStep out(fit.coefficients());
  out.quality = quality;
  for (const StepSample& sample : samples) out.max_rows = std::max(out.max_rows, sample.shape.tokens);
  return out;
}

}  // namespace weir::plan
