#include "driver/arrivals.h"

#include <charconv>
#include <cmath>

#include "base/check.h"
#include "base/printable.h"
#include "driver/fields.h"
#include "driver/random.h"

namespace weir::driver {
namespace {

constexpr std::uint64_t kArrivalStream = 0x6172726976616Cull;  // "arrival"
// Faster than any server this was made for, slower than what a double of seconds cannot tell apart.
constexpr double kMaxRate = 1e6, kMinRate = 1e-6;
constexpr double kMaxCv = 100;
constexpr int kMaxBurst = 1 << 20, kMaxClients = 1 << 16;

tl::unexpected<Error> unknown(std::string_view text) {
  return fail_at("arrivals", ErrorCode::kInvalidArgument,
                 "--arrivals '{}' is unknown; use poisson:RATE, gamma:RATE:CV, constant:RATE, burst:RATE:SIZE, "
                 "closed:CLIENTS, at-once or trace[:SPEED]",
                 printable(std::string(text.substr(0, 80))));
}

}  // namespace

std::string ArrivalSpec::describe() const {
  switch (kind) {
    case ArrivalKind::kPoisson:
      return fmt::format("poisson, {:g} requests/s", rate);
    case ArrivalKind::kGamma:
      return fmt::format("gamma, {:g} requests/s, CV {:g}", rate, cv);
    case ArrivalKind::kConstant:
      return fmt::format("constant, {:g} requests/s", rate);
    case ArrivalKind::kBurst:
      return fmt::format("bursts of {}, {:g} requests/s", burst, rate);
    case ArrivalKind::kAtOnce:
      return "all at once";
    case ArrivalKind::kClosed:
      return fmt::format("closed loop, {} clients", concurrency);
    case ArrivalKind::kTrace:
      return fmt::format("the trace's times, {:g} times as fast", rate);
  }
  return "?";
}

Result<ArrivalSpec> parse_arrivals(std::string_view text) {
  const std::vector<std::string_view> parts = split_fields(text, ':');
  const std::string_view name = parts.front();
  ArrivalSpec spec;
  std::size_t expected = 2;
  double last = 0;  // the parameter after the rate
  if (name == "poisson") {
    spec.kind = ArrivalKind::kPoisson;
  } else if (name == "constant") {
    spec.kind = ArrivalKind::kConstant;
  } else if (name == "gamma" || name == "burst") {
    spec.kind = name == "gamma" ? ArrivalKind::kGamma : ArrivalKind::kBurst;
    expected = 3;
    const double most = name == "gamma" ? kMaxCv : kMaxBurst, least = name == "gamma" ? 0.01 : 1;
    if (parts.size() != expected) return unknown(text);
    WEIR_TRY(last, number_field("arrivals", parts[2], least, most));
  } else if (name == "closed") {
    if (parts.size() != 2) return unknown(text);
    spec.kind = ArrivalKind::kClosed;
    WEIR_TRY(const double clients, number_field("arrivals", parts[1], 1, kMaxClients));
    spec.concurrency = static_cast<int>(clients);
    return spec;
  } else if (text == "at-once") {
    return spec;
  } else if (name == "trace") {
    spec.kind = ArrivalKind::kTrace;
    spec.rate = 1;
    if (parts.size() == 1) return spec;
  } else {
    return unknown(text);
  }
  if (parts.size() != expected) return unknown(text);
  WEIR_TRY(spec.rate, number_field("arrivals", parts[1], kMinRate, kMaxRate));
  if (spec.kind == ArrivalKind::kGamma) spec.cv = last;
  if (spec.kind == ArrivalKind::kBurst) spec.burst = static_cast<int>(last);
  return spec;
}

std::vector<double> draw_arrivals(const ArrivalSpec& spec, std::size_t count, std::uint64_t seed) {
  CHECK(spec.kind != ArrivalKind::kTrace, "a trace has its own times");
  std::vector<double> times(count, 0.0);
  if (spec.kind == ArrivalKind::kAtOnce || spec.kind == ArrivalKind::kClosed) return times;
  Random random(seed, kArrivalStream);
  const double shape = 1.0 / (spec.cv * spec.cv);
  double now_s = 0;
  for (std::size_t i = 0; i < count; ++i) {
    switch (spec.kind) {
      case ArrivalKind::kPoisson:
        now_s += random.exponential() / spec.rate;
        break;
      case ArrivalKind::kGamma:
        now_s += random.gamma(shape) / shape / spec.rate;
        break;
      case ArrivalKind::kConstant:
        now_s = static_cast<double>(i) / spec.rate;
        break;
      default: {
        const auto burst = static_cast<std::size_t>(spec.burst);
        now_s = static_cast<double>(i / burst * burst) / spec.rate;
      }
    }
    times[i] = now_s;
  }
  return times;
}

}  // namespace weir::driver
