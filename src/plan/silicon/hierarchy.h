// Hierarchy: sums of physical terms fitted to measurements of many software and hardware groups.
//
// log y = log sum_j x_j exp(a_j + sum_l d[l, group_l, j or kind(j)]). Coefficients are positive by form. Normal priors
// pull a_j to a start value and every deviation d to zero, so that a group of few rows borrows from the others and a
// group never seen is predicted by what all have in common. Student-t noise (4 degrees) keeps faulty rows from
// deciding. The maximum of the posterior is found by damped Gauss-Newton steps: deterministic, no randomness.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace weir::plan {

struct HierarchyPrior {
  struct Level {
    double scale = 1;       // of the deviations, times the kind's sd
    bool per_term = false;  // else one deviation per kind
  };
  std::vector<double> start;    // of exp(a), per term
  std::vector<int> kind;        // per term
  std::vector<double> kind_sd;  // of log coefficients
  double base_scale = 1.5;      // of a_j, times the kind's sd
  double noise = 0.06;          // of log y
  std::vector<Level> levels;
};

struct HierarchyRow {
  std::vector<double> terms;        // >= 0, one at least > 0
  std::vector<std::string> groups;  // one per level
  double log_y = 0;
};

class Hierarchy {
 public:
  static Hierarchy fit(std::span<const HierarchyRow* const> rows, HierarchyPrior prior);

  double log_mean(const HierarchyRow& row) const;
  // exp(a + deviations of the groups that are known).
  std::vector<double> coefficients(const std::vector<std::string>& groups) const;
  bool knows(std::size_t level, const std::string& group) const { return groups_[level].contains(group); }
  std::size_t parameters() const { return values_.size(); }

 private:
  struct Layout;  // of one row's parameters
  void index(std::span<const HierarchyRow* const> rows);
  std::size_t width(std::size_t level) const;
  std::vector<double> prior_precision() const;
  void log_coefficients(const std::vector<std::string>& groups, std::vector<double>& out) const;

  HierarchyPrior prior_;
  std::vector<std::map<std::string, std::size_t>> groups_;  // group -> first parameter
  std::vector<double> values_, start_;
};

// Offsets of log y for nested groups, each a normal around zero: what stays of the residuals once the terms are fitted.
class GroupOffsets {
 public:
  // keys[i][l]: group of residual i on level l. sd: per level.
  void fit(const std::vector<std::vector<std::string>>& keys, const std::vector<double>& residuals,
           const std::vector<double>& sd, double noise);
  double at(const std::vector<std::string>& keys) const;

 private:
  std::vector<std::map<std::string, double>> offsets_;
};

}  // namespace weir::plan
