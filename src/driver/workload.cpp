#include "driver/workload.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/check.h"
#include "driver/fields.h"
#include "driver/random.h"

namespace weir::driver {
namespace {

// Streams of the seed.
constexpr std::uint64_t kPromptLengths = 1, kOutputLengths = 2, kGroups = 3, kPrefixes = 1ull << 40,
                        kPrompts = 1ull << 41, kTraceBlocks = 1ull << 42;
constexpr double kMaxLength = 1 << 24;
constexpr double kMaxSigma = 10;

// Short common words, most of them one token in vocabularies of natural language; how many tokens a prompt has is what
// the server counts.
constexpr std::array<std::string_view, 32> kWords = {
    "the",  "river", "house", "water", "time",  "light", "stone", "road",  "green", "night", "open",
    "hand", "small", "great", "under", "over",  "first", "last",  "long",  "work",  "place", "year",
    "word", "city",  "field", "north", "south", "east",  "west",  "early", "late",  "near"};

std::int64_t draw_length(const LengthSpec& spec, Random& random) {
  double length = spec.median;
  if (spec.kind == LengthSpec::Kind::kUniform) {
    const auto span = static_cast<double>(spec.most - spec.least + 1);
    length = std::floor(static_cast<double>(spec.least) + random.uniform() * span);
  } else if (spec.kind == LengthSpec::Kind::kLognormal) {
    length = spec.median * std::exp(spec.sigma * random.normal());
  }
  return std::clamp(static_cast<std::int64_t>(std::min(std::round(length), kMaxLength)), spec.least, spec.most);
}

}  // namespace

std::string LengthSpec::describe() const {
  switch (kind) {
    case Kind::kConstant:
      return fmt::format("{:g}", median);
    case Kind::kUniform:
      return fmt::format("uniform {} to {}", least, most);
    case Kind::kLognormal:
      return fmt::format("lognormal, median {:g}, sigma {:g}", median, sigma);
    case Kind::kTrace:
      return "the trace's";
  }
  return "?";
}

Result<LengthSpec> parse_lengths(const char* what, std::string_view text) {
  const auto parts = split_fields(text, ':');
  LengthSpec spec;
  if (text == "trace") {
    spec.kind = LengthSpec::Kind::kTrace;
  } else if (parts.size() == 1) {
    WEIR_TRY(spec.median, number_field(what, text, 1, kMaxLength));
    spec.median = std::round(spec.median);
    spec.most = static_cast<std::int64_t>(kMaxLength);
  } else if (parts.front() == "uniform" && parts.size() == 3) {
    spec.kind = LengthSpec::Kind::kUniform;
    WEIR_TRY(const double low, number_field(what, parts[1], 1, kMaxLength));
    WEIR_TRY(const double high, number_field(what, parts[2], low, kMaxLength));
    spec.least = static_cast<std::int64_t>(low);
    spec.most = static_cast<std::int64_t>(high);
  } else if (parts.front() == "lognormal" && (parts.size() == 3 || parts.size() == 5)) {
    spec.kind = LengthSpec::Kind::kLognormal;
    WEIR_TRY(spec.median, number_field(what, parts[1], 1, kMaxLength));
    WEIR_TRY(spec.sigma, number_field(what, parts[2], 0, kMaxSigma));
    if (parts.size() == 5) {
      WEIR_TRY(const double low, number_field(what, parts[3], 1, kMaxLength));
      WEIR_TRY(const double high, number_field(what, parts[4], low, kMaxLength));
      spec.least = static_cast<std::int64_t>(low);
      spec.most = static_cast<std::int64_t>(high);
    }
  } else {
    return fail_at(what, ErrorCode::kInvalidArgument,
                   "--{} '{}' is unknown; use a number, uniform:LOW:HIGH, lognormal:MEDIAN:SIGMA[:LOW:HIGH] or trace",
                   what, printable(std::string(text.substr(0, 80))));
  }
  return spec;
}

Result<Workload> Workload::draw(WorkloadSpec spec) {
  using Kind = LengthSpec::Kind;
  const bool times = spec.arrivals.kind == ArrivalKind::kTrace;
  const bool prompts = spec.prompt.kind == Kind::kTrace, outputs = spec.output.kind == Kind::kTrace;
  if ((times || prompts || outputs) && spec.trace.empty()) {
    return fail_at("trace", ErrorCode::kInvalidArgument, "arrivals or lengths are a trace's, but there is no --trace");
  }
  if ((times || prompts || outputs) && spec.trace.size() < spec.requests) {
    return fail_at("num-prompts", ErrorCode::kInvalidArgument, "the trace has {} requests; --num-prompts asks for {}",
                   spec.trace.size(), spec.requests);
  }
  Workload out;
  out.requests_.resize(spec.requests);
  const auto drawn = times ? std::vector<double>() : draw_arrivals(spec.arrivals, spec.requests, spec.seed);
  Random prompt_lengths(spec.seed, kPromptLengths), output_lengths(spec.seed, kOutputLengths);
  Random groups(spec.seed, kGroups);
  for (std::size_t i = 0; i < spec.requests; ++i) {
    PlannedRequest& request = out.requests_[i];
    request.at_s = times ? spec.trace[i].at_s / spec.arrivals.rate : drawn[i];
    request.own_tokens = prompts ? spec.trace[i].prompt_tokens : draw_length(spec.prompt, prompt_lengths);
    request.output_tokens = outputs ? spec.trace[i].output_tokens : draw_length(spec.output, output_lengths);
    if (spec.prefix_groups > 0 && spec.prefix_tokens > 0) {
      request.group = static_cast<int>(groups.bits() % static_cast<std::uint32_t>(spec.prefix_groups));
      request.prefix_tokens = spec.prefix_tokens;
    }
  }
  out.spec_ = std::move(spec);
  return out;
}

std::vector<TokenId> Workload::prompt(std::size_t request) const {
  const PlannedRequest& planned = requests_.at(request);
  std::vector<TokenId> ids;
  ids.reserve(static_cast<std::size_t>(planned.prompt_tokens()));
  const auto count = static_cast<std::uint32_t>(spec_.token_count);
  const auto append = [&](std::uint64_t stream, std::int64_t tokens) {
    Random random(spec_.seed ^ (spec_.text_seed * 0x9E3779B97F4A7C15ull), stream);
    for (std::int64_t i = 0; i < tokens; ++i)
      ids.push_back(spec_.lowest_token + static_cast<TokenId>(random.bits() % count));
  };
  append(kPrefixes + static_cast<std::uint64_t>(planned.group), planned.prefix_tokens);
  std::int64_t left = planned.own_tokens;
  if (spec_.prompt.kind == LengthSpec::Kind::kTrace) {
    // Blocks of the same name hold the same tokens, as the trace's did.
    for (const std::int64_t hash : spec_.trace[request].hash_ids) {
      const std::int64_t tokens = std::min(left, kTraceBlockTokens);
      append(kTraceBlocks + static_cast<std::uint64_t>(hash), tokens);
      left -= tokens;
    }
  }
  append(kPrompts + request, left);
  return ids;
}

std::string Workload::prompt_text(std::size_t request) const {
  std::string text;
  for (const TokenId id : prompt(request)) {
    if (!text.empty()) text += ' ';
    text += kWords[static_cast<std::size_t>(id) % kWords.size()];
  }
  return text;
}

}  // namespace weir::driver
