#include "plan/sim/workload.h"

#include <cmath>

namespace weir::plan::sim {

namespace {

constexpr std::uint64_t kShared = 1, kOwn = 2;  // kinds of blocks

}  // namespace

// The finaliser of splitmix64 (Steele, Lea, Flood 2014).
std::uint64_t mix(std::uint64_t state, std::uint64_t piece) {
  std::uint64_t x = state + 0x9E3779B97F4A7C15 + piece * 0xD1342543DE82EF95;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

Status check_workload(const Workload& workload) {
  const auto wrong = [](std::size_t index, std::string_view field, auto found, std::string_view allowed) {
    return fail_at(std::string(field), ErrorCode::kInvalidArgument, "request {}: {} is {}; {}", index, field, found,
                   allowed);
  };
  if (workload.requests.empty()) return fail(ErrorCode::kInvalidArgument, "the workload has no requests");
  if (static_cast<std::int64_t>(workload.requests.size()) > kMostRequests) {
    return fail(ErrorCode::kInvalidArgument, "the workload has {} requests; at most {} can be simulated",
                workload.requests.size(), kMostRequests);
  }
  if (workload.id_tokens < 1) {
    return fail_at("id_tokens", ErrorCode::kInvalidArgument, "id_tokens is {}; it must be at least 1",
                   workload.id_tokens);
  }
  if (!(workload.think_s >= 0) || workload.concurrency < 0) {
    return fail(ErrorCode::kInvalidArgument, "a closed loop of {} clients that wait {} s; both must be at least 0",
                workload.concurrency, workload.think_s);
  }
  double before = 0;
  for (std::size_t i = 0; i < workload.requests.size(); ++i) {
    const Request& r = workload.requests[i];
    if (r.prompt_tokens < 1) return wrong(i, "prompt_tokens", r.prompt_tokens, "it must be at least 1");
    if (r.output_tokens < 0) return wrong(i, "output_tokens", r.output_tokens, "it must be at least 0");
    if (r.prompt_tokens > kMostTokens || r.output_tokens > kMostTokens - r.prompt_tokens) {
      return wrong(i, "prompt_tokens", fmt::format("{} and output_tokens {}", r.prompt_tokens, r.output_tokens),
                   fmt::format("together they may be {}", kMostTokens));
    }
    if (std::size_t{r.first_id} + r.id_count > workload.ids.size()) {
      return wrong(i, "id_count", r.id_count, fmt::format("the workload has {} ids", workload.ids.size()));
    }
    if (!std::isfinite(r.arrival_s) || r.arrival_s < before) {
      return wrong(i, "arrival_s", r.arrival_s, fmt::format("the one before came at {}", before));
    }
    before = r.arrival_s;
  }
  return {};
}

std::vector<TokenId> outline(const Workload& workload, std::size_t index, int block_tokens) {
  const Request& request = workload.requests[index];
  const std::span<const std::uint64_t> ids = workload.ids_of(request);
  const std::int64_t block = block_tokens;
  const std::int64_t blocks = (request.prompt_tokens + request.output_tokens) / block;
  const std::int64_t named =
      std::min(request.prompt_tokens, static_cast<std::int64_t>(ids.size()) * workload.id_tokens);
  std::vector<TokenId> result;
  result.reserve(static_cast<std::size_t>(blocks * kOutlineIds));
  for (std::int64_t b = 0; b < blocks; ++b) {
    const std::int64_t begin = b * block, end = begin + block;
    std::uint64_t name = 0;
    if (end <= named) {
      name = mix(kShared, static_cast<std::uint64_t>(begin % workload.id_tokens));
      for (std::int64_t i = begin / workload.id_tokens; i * workload.id_tokens < end; ++i) {
        name = mix(name, ids[static_cast<std::size_t>(i)]);
      }
    } else {
      name = mix(mix(kOwn, index), static_cast<std::uint64_t>(b));
    }
    result.push_back(static_cast<TokenId>(name & 0xFFFFFFFF));
    result.push_back(static_cast<TokenId>(name >> 32));
  }
  return result;
}

}  // namespace weir::plan::sim
