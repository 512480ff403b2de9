#include "traffic/arrivals.h"

#include "base/check.h"
#include "traffic/fields.h"

namespace weir::traffic {
namespace {

using Kind = Arrivals::Kind;

// Faster than any server, slower than what doubles of seconds tell apart.
constexpr double kMostRate = 1e9, kLeastRate = 1e-6;
constexpr double kMostCv = 100, kLeastCv = 0.01;
constexpr int kMostBurst = 1 << 20, kMostClients = 1 << 16;
constexpr double kMostThink_s = 1e9;

bool rest_of(Arrivals& arrivals, const std::vector<std::string_view>& fields) {
  if (arrivals.kind == Kind::kClosed) {
    const auto clients = whole_in(fields[1], 1, kMostClients);
    const auto think_s = fields.size() > 2 ? number_in(fields[2], 0, kMostThink_s) : 0.0;
    if (!clients || !think_s) return false;
    arrivals.concurrency = static_cast<int>(*clients);
    arrivals.think_s = *think_s;
    return true;
  }
  if (fields.size() > 1) {
    const auto rate = number_in(fields[1], kLeastRate, kMostRate);
    if (!rate) return false;
    arrivals.rate = *rate;
  }
  if (arrivals.kind == Kind::kGamma) {
    const auto cv = number_in(fields[2], kLeastCv, kMostCv);
    if (cv) arrivals.cv = *cv;
    return cv.has_value();
  }
  if (arrivals.kind == Kind::kBurst) {
    const auto size = whole_in(fields[2], 1, kMostBurst);
    if (size) arrivals.burst = static_cast<int>(*size);
    return size.has_value();
  }
  return true;
}

}  // namespace

std::string Arrivals::describe(bool with_rate) const {
  const std::string at = with_rate ? fmt::format(", {:g} requests/s", rate) : "";
  switch (kind) {
    case Kind::kPoisson:
      return "poisson" + at;
    case Kind::kGamma:
      return fmt::format("gamma gaps of CV {:g}{}", cv, at);
    case Kind::kConstant:
      return "equal gaps" + at;
    case Kind::kBurst:
      return fmt::format("bursts of {}{}", burst, at);
    case Kind::kAtOnce:
      return "all at once";
    case Kind::kClosed:
      return fmt::format("closed loop, {} clients{}", concurrency,
                         think_s > 0 ? fmt::format(", {:g} s between", think_s) : "");
    case Kind::kTrace:
      return with_rate ? fmt::format("the trace's times, {:g} times as fast", rate) : "the trace's times";
  }
  return "?";
}

Result<Arrivals> parse_arrivals(std::string_view text) {
  struct Form {
    std::string_view name;
    Kind kind;
    std::size_t fewest, most;  // fields
  };
  static constexpr Form kForms[] = {{"poisson", Kind::kPoisson, 2, 2},   {"gamma", Kind::kGamma, 3, 3},
                                    {"constant", Kind::kConstant, 2, 2}, {"burst", Kind::kBurst, 3, 3},
                                    {"at-once", Kind::kAtOnce, 1, 1},    {"closed", Kind::kClosed, 2, 3},
                                    {"trace", Kind::kTrace, 1, 2}};
  const auto fields = split_fields(text, ':');
  for (const Form& form : kForms) {
    if (fields[0] != form.name || fields.size() < form.fewest || fields.size() > form.most) continue;
    Arrivals arrivals{.kind = form.kind};
    if (rest_of(arrivals, fields)) return arrivals;
  }
  return fail_at("arrivals", ErrorCode::kInvalidArgument,
                 "--arrivals '{}' is none of poisson:RATE, gamma:RATE:CV, constant:RATE, burst:RATE:SIZE, at-once, "
                 "closed:CLIENTS[:THINK_S] and trace[:SPEED], with RATE in requests/s from {:g} to {:g}, CV from {:g} "
                 "to {:g}, SIZE to {}, CLIENTS to {}",
                 printable(std::string(text.substr(0, 80))), kLeastRate, kMostRate, kLeastCv, kMostCv, kMostBurst,
                 kMostClients);
}

std::vector<double> draw_arrivals(const Arrivals& arrivals, std::size_t count, Random random) {
  CHECK(arrivals.kind != Kind::kTrace, "a trace has its own times");
  std::vector<double> times(count, 0.0);
  const double shape = 1 / (arrivals.cv * arrivals.cv);
  double now_s = 0;
  for (std::size_t i = 0; i < count; ++i) {
    switch (arrivals.kind) {
      case Kind::kPoisson:
        now_s += random.exponential() / arrivals.rate;
        break;
      case Kind::kGamma:
        now_s += random.gamma(shape) / shape / arrivals.rate;
        break;
      case Kind::kConstant:
        now_s = static_cast<double>(i) / arrivals.rate;
        break;
      case Kind::kBurst: {
        const auto size = static_cast<std::size_t>(arrivals.burst);
        now_s = static_cast<double>(i / size * size) / arrivals.rate;
        break;
      }
      case Kind::kAtOnce:
      case Kind::kClosed:
      case Kind::kTrace:
        break;
    }
    times[i] = now_s;
  }
  return times;
}

}  // namespace weir::traffic
