// When requests are sent. All times are drawn before the first request goes out, so that nothing the server does can
// move them: a slow answer delays nobody's clock (no coordinated omission), and the true rate is the one asked for.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace weir::driver {

enum class ArrivalKind {
  kPoisson,
  kGamma,     // gaps of mean 1 / rate and coefficient of variation `cv`
  kConstant,  // equal gaps
  kBurst,     // `burst` requests at once, bursts at equal gaps, `rate` requests a second over all
  kAtOnce,    // all at time 0
  kClosed,    // `concurrency` clients, each sends its next request when it has its answer
  kTrace,     // as a trace says
};

struct ArrivalSpec {
  ArrivalKind kind = ArrivalKind::kAtOnce;
  double rate = 0;  // requests a second
  double cv = 1;
  int burst = 1;
  int concurrency = 0;
  bool open_loop() const { return kind != ArrivalKind::kClosed; }
  std::string describe() const;  // "poisson, 4 requests/s"
};

// "poisson:RATE", "gamma:RATE:CV", "constant:RATE", "burst:RATE:SIZE", "closed:CLIENTS", "at-once", "trace" or
// "trace:SPEED" (a trace's times divided by SPEED, kept in `rate`).
Result<ArrivalSpec> parse_arrivals(std::string_view text);

// Seconds from the start, ascending, `count` of them. kClosed, kAtOnce: zeros. Not for kTrace, whose times are the
// trace's.
std::vector<double> draw_arrivals(const ArrivalSpec& spec, std::size_t count, std::uint64_t seed);

}  // namespace weir::driver
