#include "plan/sim/generate.h"

#include <algorithm>

#include "base/printable.h"
#include "plan/sim/fields.h"
#include "plan/sim/random.h"

namespace weir::plan::sim {

namespace {

enum Stream : std::uint64_t { kTimes = 1, kPrompts = 2, kOutputs = 3, kGroups = 4, kRows = 5 };

constexpr double kMostRate = 1e9;

std::int64_t draw(const Lengths& lengths, Random& random) {
  double value = lengths.median;
  if (lengths.kind == Lengths::Kind::kUniform) {
    return lengths.least +
           static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(lengths.most - lengths.least + 1)));
  }
  if (lengths.kind == Lengths::Kind::kLognormal) value *= std::exp(lengths.sigma * random.normal());
  const double bounded = std::clamp(value, static_cast<double>(lengths.least), static_cast<double>(lengths.most));
  return static_cast<std::int64_t>(std::llround(bounded));
}

}  // namespace

Result<Arrivals> parse_arrivals(std::string_view text) {
  const auto fields = split(text, ':');
  const auto wrong = [&] {
    return fail_at(
        "arrivals", ErrorCode::kInvalidArgument,
        "--arrivals '{}' is not one of poisson:RATE, gamma:RATE:CV, constant:RATE, burst:RATE:SIZE, at-once, "
        "closed:CLIENTS or closed:CLIENTS:THINK_S, with RATE in requests/s above 0, CV 0.01 to 100",
        printable(text));
  };
  Arrivals arrivals;
  using Kind = Arrivals::Kind;
  const auto is = [&](std::string_view name, std::size_t count) { return fields[0] == name && fields.size() == count; };
  if (is("at-once", 1)) {
    arrivals.kind = Kind::kAtOnce;
    return arrivals;
  }
  if (is("closed", 2) || is("closed", 3)) {
    const auto clients = number<int>(fields[1]);
    const auto think_s = fields.size() == 3 ? number_in(fields[2], 0, 1e9) : 0.0;
    if (!clients || *clients < 1 || !think_s) return wrong();
    arrivals.kind = Kind::kClosed;
    arrivals.concurrency = *clients;
    arrivals.think_s = *think_s;
    return arrivals;
  }
  if (fields.size() < 2) return wrong();
  const auto rate = number_in(fields[1], 1e-9, kMostRate);
  if (!rate) return wrong();
  arrivals.rate = *rate;
  if (is("poisson", 2)) return arrivals;
  if (is("constant", 2)) {
    arrivals.kind = Kind::kConstant;
    return arrivals;
  }
  if (is("gamma", 3)) {
    const auto cv = number_in(fields[2], 0.01, 100);
    if (!cv) return wrong();
    arrivals.kind = Kind::kGamma;
    arrivals.cv = *cv;
    return arrivals;
  }
  if (is("burst", 3)) {
    const auto size = number<int>(fields[2]);
    if (!size || *size < 1) return wrong();
    arrivals.kind = Kind::kBurst;
    arrivals.burst = *size;
    return arrivals;
  }
  return wrong();
}

std::string Arrivals::describe() const {
  switch (kind) {
    case Kind::kPoisson:
      return fmt::format("poisson, {:.6g} requests/s", rate);
    case Kind::kGamma:
      return fmt::format("gamma gaps of CV {:.6g}, {:.6g} requests/s", cv, rate);
    case Kind::kConstant:
      return fmt::format("equal gaps, {:.6g} requests/s", rate);
    case Kind::kBurst:
      return fmt::format("bursts of {}, {:.6g} requests/s", burst, rate);
    case Kind::kAtOnce:
      return "all at once";
    case Kind::kClosed:
      return fmt::format("{} clients in a closed loop, {:.6g} s between", concurrency, think_s);
  }
  return {};
}

Result<Lengths> parse_lengths(std::string_view option, std::string_view text) {
  const auto fields = split(text, ':');
  const auto wrong = [&] {
    return fail_at(std::string(option), ErrorCode::kInvalidArgument,
                   "--{} '{}' is not one of TOKENS, uniform:LOW:HIGH, lognormal:MEDIAN:SIGMA or "
                   "lognormal:MEDIAN:SIGMA:LOW:HIGH, with 1 to {} tokens, SIGMA 0 to 10",
                   option, printable(text), kMostTokens / 2);
  };
  const auto tokens = [](std::string_view field) -> std::optional<std::int64_t> {
    const auto value = number<std::int64_t>(field);
    if (!value || *value < 1 || *value > kMostTokens / 2) return std::nullopt;
    return value;
  };
  Lengths lengths;
  if (fields.size() == 1) {
    const auto value = tokens(fields[0]);
    if (!value) return wrong();
    lengths.median = static_cast<double>(*value);
    return lengths;
  }
  const bool lognormal = fields[0] == "lognormal" && (fields.size() == 3 || fields.size() == 5);
  if (!lognormal && !(fields[0] == "uniform" && fields.size() == 3)) return wrong();
  lengths.kind = lognormal ? Lengths::Kind::kLognormal : Lengths::Kind::kUniform;
  if (lognormal) {
    const auto median = number_in(fields[1], 1, static_cast<double>(kMostTokens / 2)),
               sigma = number_in(fields[2], 0, 10);
    if (!median || !sigma) return wrong();
    lengths.median = *median;
    lengths.sigma = *sigma;
  }
  if (fields.size() == 5 || !lognormal) {
    const auto least = tokens(fields[fields.size() - 2]), most = tokens(fields.back());
    if (!least || !most || *least > *most) return wrong();
    lengths.least = *least;
    lengths.most = *most;
  }
  return lengths;
}

std::vector<double> draw_arrivals(const Arrivals& arrivals, std::size_t count, std::uint64_t seed) {
  using Kind = Arrivals::Kind;
  Random random(seed, kTimes);
  std::vector<double> times;
  times.reserve(count);
  double at_s = 0;
  const double shape = 1 / (arrivals.cv * arrivals.cv);
  for (std::size_t i = 0; i < count; ++i) {
    switch (arrivals.kind) {
      case Kind::kPoisson:
        at_s += random.exponential() / arrivals.rate;
        break;
      case Kind::kGamma:
        at_s += random.gamma(shape) / shape / arrivals.rate;
        break;
      case Kind::kConstant:
        at_s = static_cast<double>(i) / arrivals.rate;
        break;
      case Kind::kBurst: {
        const auto size = static_cast<std::size_t>(arrivals.burst);
        at_s = static_cast<double>(i / size * size) / arrivals.rate;
        break;
      }
      case Kind::kAtOnce:
      case Kind::kClosed:
        break;
    }
    times.push_back(at_s);
  }
  return times;
}

Workload generate(const GenerateSpec& spec) {
  Workload workload;
  workload.name = spec.arrivals.describe();
  if (spec.arrivals.kind == Arrivals::Kind::kClosed) {
    workload.concurrency = spec.arrivals.concurrency;
    workload.think_s = spec.arrivals.think_s;
  }
  const std::vector<double> times = draw_arrivals(spec.arrivals, spec.requests, spec.seed);
  Random prompts(spec.seed, kPrompts), outputs(spec.seed, kOutputs), groups(spec.seed, kGroups), rows(spec.seed, kRows);
  workload.requests.resize(spec.requests);
  if (spec.prefix_tokens > 0) {
    workload.id_tokens = spec.prefix_tokens;  // one id is one whole prefix
    for (int g = 0; g < spec.prefix_groups; ++g) workload.ids.push_back(mix(spec.seed, static_cast<std::uint64_t>(g)));
  }
  for (std::size_t i = 0; i < spec.requests; ++i) {
    Request& request = workload.requests[i];
    request.arrival_s = times[i];
    if (spec.empirical.empty()) {
      request.prompt_tokens = draw(spec.prompt, prompts);
      request.output_tokens = draw(spec.output, outputs);
    } else {
      const auto& row = spec.empirical[rows.below(spec.empirical.size())];
      request.prompt_tokens = row.first;
      request.output_tokens = row.second;
    }
    if (spec.prefix_tokens == 0) continue;
    request.prompt_tokens += spec.prefix_tokens;
    request.first_id = static_cast<std::uint32_t>(groups.below(static_cast<std::uint64_t>(spec.prefix_groups)));
    request.id_count = 1;
  }
  return workload;
}

}  // namespace weir::plan::sim
