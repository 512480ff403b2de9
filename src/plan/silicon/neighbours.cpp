#include "plan/silicon/neighbours.h"

#include <cmath>

namespace weir::plan {
namespace {

constexpr int kReweightings = 4;
constexpr double kFreedom = 4;

double kernel(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::exp(-0.5 * sum);
}

}  // namespace

bool solve_positive(std::vector<double>& a, std::size_t n, std::vector<double>& b) {
  for (std::size_t i = 0; i < n; ++i) {
    double* row_i = &a[i * n];
    for (std::size_t j = 0; j <= i; ++j) {
      const double* row_j = &a[j * n];
      double sum0 = 0, sum1 = 0, sum2 = 0, sum3 = 0;
      std::size_t k = 0;
      for (; k + 4 <= j; k += 4) {
        sum0 += row_i[k] * row_j[k];
        sum1 += row_i[k + 1] * row_j[k + 1];
        sum2 += row_i[k + 2] * row_j[k + 2];
        sum3 += row_i[k + 3] * row_j[k + 3];
      }
      for (; k < j; ++k) sum0 += row_i[k] * row_j[k];
      const double rest = row_i[j] - (sum0 + sum1) - (sum2 + sum3);
      if (i == j) {
        if (!(rest > 0)) return false;
        row_i[i] = std::sqrt(rest);
      } else {
        row_i[j] = rest / row_j[j];
      }
    }
  }
  for (std::size_t i = 0; i < n; ++i) {
    double sum = b[i];
    for (std::size_t k = 0; k < i; ++k) sum -= a[i * n + k] * b[k];
    b[i] = sum / a[i * n + i];
  }
  for (std::size_t i = n; i-- > 0;) {
    b[i] /= a[i * n + i];
    for (std::size_t k = 0; k < i; ++k) b[k] -= a[i * n + k] * b[i];
  }
  return true;
}

void Neighbours::fit(std::vector<NeighbourPoint> points, const std::vector<double>& residuals, double sd,
                     double noise) {
  blocks_.clear();
  variance_ = sd * sd;
  std::map<std::string, std::vector<double>> values;
  for (std::size_t i = 0; i < points.size(); ++i) {
    Block& block = blocks_[points[i].block];
    if (block.at.size() >= kMaxBlock) continue;
    block.at.push_back(std::move(points[i].at));
    values[points[i].block].push_back(residuals[i]);
  }
  for (auto& [name, block] : blocks_) {
    const std::vector<double>& y = values[name];
    const std::size_t n = y.size();
    std::vector<double> covariance(n * n), trust(n, 1.0);
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j <= i; ++j)
        covariance[i * n + j] = covariance[j * n + i] = variance_ * kernel(block.at[i], block.at[j]);
    }
    for (int round = 0; round < kReweightings; ++round) {
      auto matrix = covariance;
      for (std::size_t i = 0; i < n; ++i) matrix[i * n + i] += noise * noise / trust[i];
      auto weight = y;
      if (!solve_positive(matrix, n, weight)) break;
      block.weight = std::move(weight);
      for (std::size_t i = 0; i < n; ++i) {
        // What the smooth part leaves is noise^2 / trust times the weight.
        const double rest = noise / trust[i] * block.weight[i];
        trust[i] = (kFreedom + 1) / (kFreedom + rest * rest);
      }
    }
  }
}

double Neighbours::at(const NeighbourPoint& point) const {
  const auto found = blocks_.find(point.block);
  if (found == blocks_.end()) return 0;
  double sum = 0;
  const Block& block = found->second;
  for (std::size_t i = 0; i < block.weight.size(); ++i)
    sum += block.weight[i] * variance_ * kernel(block.at[i], point.at);
  return sum;
}

}  // namespace weir::plan
