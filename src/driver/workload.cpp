#include "driver/workload.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/printable.h"
#include "traffic/random.h"

namespace weir::driver {

using traffic::Random;

namespace {

// Streams of the seed.
constexpr std::uint64_t kArrivals = 0x6172726976616Cull;  // "arrival"
constexpr std::uint64_t kPromptLengths = 1, kOutputLengths = 2, kGroups = 3, kPrefixes = 1ull << 40,
                        kPrompts = 1ull << 41, kTraceBlocks = 1ull << 42;  // from there twice as far

// Short common words, most of them one token in vocabularies of natural language; how many tokens a prompt has is what
// the server counts.
constexpr std::array<std::string_view, 32> kWords = {
    "the",  "river", "house", "water", "time",  "light", "stone", "road",  "green", "night", "open",
    "hand", "small", "great", "under", "over",  "first", "last",  "long",  "work",  "place", "year",
    "word", "city",  "field", "north", "south", "east",  "west",  "early", "late",  "near"};

}  // namespace

Result<Workload> Workload::draw(WorkloadSpec spec) {
  using Kind = traffic::Lengths::Kind;
  const bool times = spec.arrivals.kind == traffic::Arrivals::Kind::kTrace;
  const bool prompts = spec.prompt.kind == Kind::kTrace, outputs = spec.output.kind == Kind::kTrace;
  if ((times || prompts || outputs) && spec.trace.rows.empty()) {
    return fail_at("trace", ErrorCode::kInvalidArgument, "arrivals or lengths are a trace's, but there is no --trace");
  }
  if ((times || prompts || outputs) && spec.trace.rows.size() < spec.requests) {
    return fail_at("num-prompts", ErrorCode::kInvalidArgument, "the trace has {} requests; --num-prompts asks for {}",
                   spec.trace.rows.size(), spec.requests);
  }
  if (times && !spec.trace.has_times) {
    return fail_at(
        "arrivals", ErrorCode::kInvalidArgument,
        "--trace {} has lengths and no times: give other --arrivals, and --input-len trace, --output-len trace",
        printable(spec.trace.path));
  }
  if (spec.arrivals.think_s > 0) {
    return fail_at("arrivals", ErrorCode::kUnsupported, "clients that think for {:g} s are not there: use closed:{}",
                   spec.arrivals.think_s, spec.arrivals.concurrency);
  }
  Workload out;
  out.requests_.resize(spec.requests);
  const auto drawn = times ? std::vector<double>()
                           : traffic::draw_arrivals(spec.arrivals, spec.requests, Random(spec.seed, kArrivals));
  Random prompt_lengths(spec.seed, kPromptLengths), output_lengths(spec.seed, kOutputLengths);
  Random groups(spec.seed, kGroups);
  for (std::size_t i = 0; i < spec.requests; ++i) {
    PlannedRequest& request = out.requests_[i];
    request.at_s = times ? spec.trace.rows[i].at_s / spec.arrivals.rate : drawn[i];
    request.own_tokens = prompts ? spec.trace.rows[i].prompt_tokens : spec.prompt.draw(prompt_lengths);
    // No server takes a reply of no tokens.
    request.output_tokens =
        outputs ? std::max<std::int64_t>(1, spec.trace.rows[i].output_tokens) : spec.output.draw(output_lengths);
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
  if (spec_.prompt.kind == traffic::Lengths::Kind::kTrace) {
    // Blocks of the same name hold the same tokens, as the trace's did.
    for (const std::uint64_t id : spec_.trace.ids_of(spec_.trace.rows[request])) {
      const std::int64_t tokens = std::min(left, spec_.trace.id_tokens);
      append(kTraceBlocks + id % kTraceBlocks, tokens);
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
