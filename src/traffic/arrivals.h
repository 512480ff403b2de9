// When requests are sent. All times are drawn before the first request goes out, so that nothing a server does can
// move them: a slow answer delays nobody's clock (no coordinated omission), and the true rate is the one asked for.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "traffic/random.h"

namespace weir::traffic {

struct Arrivals {
  enum class Kind {
    kPoisson,
    kGamma,     // gaps of mean 1 / rate and coefficient of variation `cv`
    kConstant,  // equal gaps
    kBurst,     // `burst` requests at once, bursts at equal gaps, `rate` requests a second over all
    kAtOnce,    // all at time 0
    kClosed,    // `concurrency` clients, each sends its next request `think_s` after it has its answer
    kTrace,     // as a trace says, `rate` times as fast
  };
  Kind kind = Kind::kAtOnce;
  double rate = 1;  // requests a second
  double cv = 1;
  int burst = 1;
  int concurrency = 0;
  double think_s = 0;
  bool open_loop() const { return kind != Kind::kClosed; }
  // "poisson, 4 requests/s"; "poisson" for who goes through rates of their own.
  std::string describe(bool with_rate = true) const;
};

// "poisson:RATE", "gamma:RATE:CV", "constant:RATE", "burst:RATE:SIZE", "at-once", "closed:CLIENTS[:THINK_S]", "trace"
// or "trace:SPEED". kInvalidArgument lists them.
Result<Arrivals> parse_arrivals(std::string_view text);

// Seconds from the start, ascending, `count` of them. kClosed, kAtOnce: zeros. Not for kTrace, whose times are the
// trace's.
std::vector<double> draw_arrivals(const Arrivals& arrivals, std::size_t count, Random random);

}  // namespace weir::traffic
