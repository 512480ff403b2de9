#include "plan/silicon/hierarchy.h"

#include <algorithm>
#include <cmath>

#include "plan/silicon/neighbours.h"

namespace weir::plan {
namespace {

constexpr double kFreedom = 4;  // of the noise's Student-t
constexpr int kIterations = 25, kDampings = 6, kSweeps = 30;
constexpr double kDone = 2e-4;  // relative fall of the cost below which a step was the last
constexpr double kLargestStep = 1, kLargestLog = 25;

}  // namespace

std::size_t Hierarchy::width(std::size_t level) const {
  return prior_.levels[level].per_term ? prior_.start.size() : prior_.kind_sd.size();
}

void Hierarchy::index(std::span<const HierarchyRow* const> rows) {
  std::size_t next = prior_.start.size();
  groups_.assign(prior_.levels.size(), {});
  for (std::size_t level = 0; level < prior_.levels.size(); ++level) {
    for (const HierarchyRow* row : rows) {
      if (groups_[level].try_emplace(row->groups[level], next).second) next += width(level);
    }
  }
  start_.assign(next, 0);
  for (std::size_t j = 0; j < prior_.start.size(); ++j) start_[j] = std::log(prior_.start[j]);
  values_ = start_;
}

std::vector<double> Hierarchy::prior_precision() const {
  std::vector<double> precision(values_.size());
  const auto of = [](double sd) { return 1 / (sd * sd); };
  for (std::size_t j = 0; j < prior_.start.size(); ++j)
    precision[j] = of(prior_.kind_sd[static_cast<std::size_t>(prior_.kind[j])] * prior_.base_scale);
  for (std::size_t level = 0; level < groups_.size(); ++level) {
    for (const auto& [name, first] : groups_[level]) {
      for (std::size_t j = 0; j < width(level); ++j) {
        const auto kind = prior_.levels[level].per_term ? static_cast<std::size_t>(prior_.kind[j]) : j;
        precision[first + j] = of(prior_.kind_sd[kind] * prior_.levels[level].scale);
      }
    }
  }
  return precision;
}

void Hierarchy::log_coefficients(const std::vector<std::string>& groups, std::vector<double>& out) const {
  out.assign(values_.begin(), values_.begin() + static_cast<std::ptrdiff_t>(prior_.start.size()));
  for (std::size_t level = 0; level < groups_.size() && level < groups.size(); ++level) {
    const auto found = groups_[level].find(groups[level]);
    if (found == groups_[level].end()) continue;
    for (std::size_t j = 0; j < out.size(); ++j) {
      const auto at = prior_.levels[level].per_term ? j : static_cast<std::size_t>(prior_.kind[j]);
      out[j] += values_[found->second + at];
    }
  }
  for (double& value : out) value = std::clamp(value, -kLargestLog, kLargestLog);
}

std::vector<double> Hierarchy::coefficients(const std::vector<std::string>& groups) const {
  std::vector<double> out;
  log_coefficients(groups, out);
  for (double& value : out) value = std::exp(value);
  return out;
}

double Hierarchy::log_mean(const HierarchyRow& row) const {
  const auto weights = coefficients(row.groups);
  double sum = 0;
  for (std::size_t j = 0; j < weights.size(); ++j) sum += weights[j] * row.terms[j];
  return std::log(std::max(sum, 1e-300));
}

namespace {

// One row's parameters and the share of the sum that each moves.
struct Gradient {
  std::vector<std::size_t> at;
  std::vector<double> value;
};

}  // namespace

struct Hierarchy::Layout {
  const Hierarchy& fit;
  std::vector<std::vector<std::size_t>> first;  // per row: of each level's group

  explicit Layout(const Hierarchy& hierarchy, std::span<const HierarchyRow* const> rows) : fit(hierarchy) {
    for (const HierarchyRow* row : rows) {
      auto& at = first.emplace_back();
      for (std::size_t level = 0; level < fit.groups_.size(); ++level)
        at.push_back(fit.groups_[level].at(row->groups[level]));
    }
  }

  double log_sum(const HierarchyRow& row, std::size_t i, std::vector<double>& parts) const {
    const HierarchyPrior& prior = fit.prior_;
    double sum = 0;
    for (std::size_t j = 0; j < prior.start.size(); ++j) {
      parts[j] = 0;
      if (row.terms[j] <= 0) continue;
      double log_weight = fit.values_[j];
      for (std::size_t level = 0; level < first[i].size(); ++level)
        log_weight +=
            fit.values_[first[i][level] + (prior.levels[level].per_term ? j : static_cast<std::size_t>(prior.kind[j]))];
      parts[j] = row.terms[j] * std::exp(std::clamp(log_weight, -kLargestLog, kLargestLog));
      sum += parts[j];
    }
    return std::log(std::max(sum, 1e-300));
  }

  void gradient(std::size_t i, const std::vector<double>& parts, double sum, Gradient& out) const {
    const HierarchyPrior& prior = fit.prior_;
    out.at.clear();
    out.value.clear();
    const auto add = [&](std::size_t at, double value) {
      if (value <= 0) return;
      out.at.push_back(at);
      out.value.push_back(value);
    };
    std::vector<double> kinds(prior.kind_sd.size(), 0.0);
    for (std::size_t j = 0; j < parts.size(); ++j) {
      add(j, parts[j] / sum);
      kinds[static_cast<std::size_t>(prior.kind[j])] += parts[j] / sum;
    }
    for (std::size_t level = 0; level < first[i].size(); ++level) {
      if (prior.levels[level].per_term) {
        for (std::size_t j = 0; j < parts.size(); ++j) add(first[i][level] + j, parts[j] / sum);
      } else {
        for (std::size_t kind = 0; kind < kinds.size(); ++kind) add(first[i][level] + kind, kinds[kind]);
      }
    }
  }

  // Adds the rows' part of a Gauss-Newton step's equations: normal x step = right.
  void add_equations(std::span<const HierarchyRow* const> rows, const std::vector<double>& residual,
                     std::vector<double>& normal, std::vector<double>& right) const {
    const std::size_t n = right.size();
    const double noise = fit.prior_.noise;
    std::vector<double> parts(fit.prior_.start.size());
    Gradient gradient_of_row;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const double sum = std::exp(log_sum(*rows[i], i, parts));
      gradient(i, parts, sum, gradient_of_row);
      const auto& [at, share] = gradient_of_row;
      const double weight = (kFreedom + 1) / (kFreedom + residual[i] * residual[i]);
      for (std::size_t a = 0; a < at.size(); ++a) {
        const double value = share[a] / noise;
        right[at[a]] += weight * residual[i] * value;
        for (std::size_t b = 0; b <= a; ++b) normal[at[a] * n + at[b]] += weight * value * share[b] / noise;
      }
    }
  }
};

Hierarchy Hierarchy::fit(std::span<const HierarchyRow* const> rows, HierarchyPrior prior) {
  Hierarchy fit;
  fit.prior_ = std::move(prior);
  fit.index(rows);
  const Layout layout(fit, rows);
  const std::size_t n = fit.values_.size(), terms = fit.prior_.start.size();
  const auto precision = fit.prior_precision();
  const double noise = fit.prior_.noise;
  std::vector<double> parts(terms), residual(rows.size());
  const auto cost = [&] {
    double sum = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      residual[i] = (rows[i]->log_y - layout.log_sum(*rows[i], i, parts)) / noise;
      sum += (kFreedom + 1) * std::log1p(residual[i] * residual[i] / kFreedom);
    }
    for (std::size_t p = 0; p < n; ++p) sum += precision[p] * std::pow(fit.values_[p] - fit.start_[p], 2);
    return sum;
  };
  double now = cost(), damping = 1e-2;
  for (int iteration = 0; iteration < kIterations; ++iteration) {
    std::vector<double> normal(n * n, 0.0), right(n);
    for (std::size_t p = 0; p < n; ++p) {
      normal[p * n + p] = precision[p];
      right[p] = -precision[p] * (fit.values_[p] - fit.start_[p]);
    }
    layout.add_equations(rows, residual, normal, right);
    const auto before = fit.values_;
    bool better = false;
    double next = now;
    for (int attempt = 0; attempt < kDampings && !better; ++attempt) {
      auto matrix = normal;
      auto step = right;
      for (std::size_t p = 0; p < n; ++p) matrix[p * n + p] *= 1 + damping;
      if (solve_positive(matrix, n, step)) {
        for (std::size_t p = 0; p < n; ++p)
          fit.values_[p] = before[p] + std::clamp(step[p], -kLargestStep, kLargestStep);
        next = cost();
        better = next < now;
      }
      if (!better) damping *= 6;
    }
    if (!better) {
      fit.values_ = before;
      break;
    }
    damping = std::max(damping / 4, 1e-6);
    const bool done = now - next < kDone * now;
    now = next;
    if (done) break;
  }
  return fit;
}

void GroupOffsets::fit(const std::vector<std::vector<std::string>>& keys, const std::vector<double>& residuals,
                       const std::vector<double>& sd, double noise) {
  const std::size_t levels = sd.size();
  offsets_.assign(levels, {});
  std::vector<std::map<std::string, std::size_t>> ids(levels);
  std::vector<std::vector<std::size_t>> group(levels, std::vector<std::size_t>(keys.size()));
  for (std::size_t l = 0; l < levels; ++l) {
    for (std::size_t i = 0; i < keys.size(); ++i)
      group[l][i] = ids[l].try_emplace(keys[i][l], ids[l].size()).first->second;
  }
  std::vector<std::vector<double>> offset(levels);
  for (std::size_t l = 0; l < levels; ++l) offset[l].assign(ids[l].size(), 0.0);
  std::vector<double> total(keys.size(), 0.0), weight(keys.size());
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    for (std::size_t i = 0; i < keys.size(); ++i)
      weight[i] = (kFreedom + 1) / (kFreedom + std::pow((residuals[i] - total[i]) / noise, 2));
    for (std::size_t l = 0; l < levels; ++l) {
      std::vector<double> sum(offset[l].size(), 0.0), mass(offset[l].size(), std::pow(noise / sd[l], 2));
      for (std::size_t i = 0; i < keys.size(); ++i) {
        sum[group[l][i]] += weight[i] * (residuals[i] - total[i] + offset[l][group[l][i]]);
        mass[group[l][i]] += weight[i];
      }
      for (std::size_t g = 0; g < sum.size(); ++g) sum[g] /= mass[g];
      for (std::size_t i = 0; i < keys.size(); ++i) total[i] += sum[group[l][i]] - offset[l][group[l][i]];
      offset[l] = sum;
    }
  }
  for (std::size_t l = 0; l < levels; ++l) {
    for (const auto& [key, id] : ids[l]) offsets_[l][key] = offset[l][id];
  }
}

double GroupOffsets::at(const std::vector<std::string>& keys) const {
  double sum = 0;
  for (std::size_t l = 0; l < offsets_.size() && l < keys.size(); ++l) {
    const auto found = offsets_[l].find(keys[l]);
    if (found != offsets_[l].end()) sum += found->second;
  }
  return sum;
}

}  // namespace weir::plan
