// Random numbers of a load: each value is a function of (seed, stream, index) alone (base/rng.h), so a run is repeated
// by its seed whatever is drawn beside it.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

#include "base/rng.h"

namespace weir::traffic {

class Random {
 public:
  // `stream`: what the numbers are for; different streams of a seed have nothing to do with each other.
  Random(std::uint64_t seed, std::uint64_t stream) : seed_(seed), stream_(stream) {}

  std::uint32_t bits() { return philox(seed_, next_++, stream_)[0]; }

  // In (0, 1): safe to take the logarithm of.
  double uniform() {
    const auto r = philox(seed_, next_++, stream_);
    return (static_cast<double>(((std::uint64_t{r[0]} << 32) | r[1]) >> 12) + 0.5) * 0x1p-52;
  }
  std::uint64_t below(std::uint64_t n) { return static_cast<std::uint64_t>(uniform() * static_cast<double>(n)); }
  double exponential() { return -std::log(uniform()); }  // of mean 1
  double normal() {                                      // Box and Muller 1958
    const double radius = std::sqrt(2 * exponential());
    return radius * std::cos(2 * std::numbers::pi * uniform());
  }
  // Of mean and variance `shape`: Marsaglia and Tsang 2000; shapes below 1 by the power of a uniform they give.
  double gamma(double shape) {
    if (shape < 1) {
      const double power = std::pow(uniform(), 1 / shape);
      return power * gamma(shape + 1);
    }
    const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
    while (true) {
      const double x = normal(), v = std::pow(1 + c * x, 3);
      if (v > 0 && std::log(uniform()) < 0.5 * x * x + d * (1 - v + std::log(v))) return d * v;
    }
  }

 private:
  std::uint64_t seed_, stream_, next_ = 0;
};

}  // namespace weir::traffic
