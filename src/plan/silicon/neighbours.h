// Neighbours: what is left of the residuals is smoothed between near deployments of the same software (a Gaussian
// process with a squared exponential kernel, in blocks): concurrency, lengths and devices that differ little give
// errors that differ little. Rows of another block are as if never seen.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace weir::plan {

struct NeighbourPoint {
  std::string block;
  std::vector<double> at;  // distances count in units of the kernel's length: scale before
};

class Neighbours {
 public:
  // `sd`: of what is to be found; `noise`: of a row. Student-t weights as in Hierarchy. Blocks are cut to kMaxBlock rows.
  void fit(std::vector<NeighbourPoint> points, const std::vector<double>& residuals, double sd, double noise);
  double at(const NeighbourPoint& point) const;
  static constexpr std::size_t kMaxBlock = 600;

 private:
  struct Block {
    std::vector<std::vector<double>> at;
    std::vector<double> weight;
  };
  std::map<std::string, Block> blocks_;
  double variance_ = 0;
};

// Solves A x = b for symmetric positive definite A (row major, lower triangle read, overwritten by its Cholesky
// factor). False: not positive definite.
bool solve_positive(std::vector<double>& a, std::size_t n, std::vector<double>& b);

}  // namespace weir::plan
