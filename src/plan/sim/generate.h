// Workloads drawn from distributions: when requests come, how long prompts and replies are, what they share.
//
// Every number is a function of (seed, what it is for, index) alone: the same seed gives the same requests on any
// machine, and another rate the same lengths.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "plan/sim/workload.h"

namespace weir::plan::sim {

struct Arrivals {
  enum class Kind { kPoisson, kGamma, kConstant, kBurst, kAtOnce, kClosed };
  Kind kind = Kind::kPoisson;
  double rate = 1;  // requests a second
  double cv = 1;    // kGamma: of the gaps
  int burst = 1;    // kBurst: so many at once, bursts at equal gaps
  int concurrency = 0;
  double think_s = 0;  // kClosed
  std::string describe() const;
};

// "poisson:RATE", "gamma:RATE:CV", "constant:RATE", "burst:RATE:SIZE", "at-once", "closed:CLIENTS[:THINK_S]".
Result<Arrivals> parse_arrivals(std::string_view text);

struct Lengths {
  enum class Kind { kConstant, kUniform, kLognormal };
  Kind kind = Kind::kConstant;
  double median = 512;  // kConstant: the length
  double sigma = 0;     // of the logarithm
  std::int64_t least = 1, most = kMostTokens / 2;
};

// "512", "uniform:LOW:HIGH", "lognormal:MEDIAN:SIGMA[:LOW:HIGH]". `option` is named in errors.
Result<Lengths> parse_lengths(std::string_view option, std::string_view text);

struct GenerateSpec {
  std::size_t requests = 1000;
  std::uint64_t seed = 1;
  Arrivals arrivals;
  Lengths prompt, output;
  std::vector<std::pair<std::int64_t, std::int64_t>>
      empirical;                   // prompt and output tokens; not empty: drawn from these
  std::int64_t prefix_tokens = 0;  // every prompt begins with one of prefix_groups prefixes, beyond its own length
  int prefix_groups = 1;
};

Workload generate(const GenerateSpec& spec);

// Ascending times from 0 on; not for kClosed.
std::vector<double> draw_arrivals(const Arrivals& arrivals, std::size_t count, std::uint64_t seed);

}  // namespace weir::plan::sim
