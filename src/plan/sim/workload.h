// Workload: what clients ask for and when. From a trace (sim/trace.h) or drawn from distributions (sim/generate.h).
//
// A prompt is not tokens but the ids of its leading pieces: equal ids in equal places are equal text, so prefixes are
// shared as in the trace. What no id covers, and every reply, is text that nobody else has.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "traffic/trace.h"

namespace weir::plan::sim {

// Limits on what a file or a command line may ask for.
using traffic::kMostTokens;
inline constexpr std::int64_t kMostRequests = traffic::kMostTraceRows;  // of a workload

struct Request {
  double arrival_s = 0;  // when the client sends it; not used in a closed loop
  std::int64_t prompt_tokens = 1;
  std::int64_t output_tokens = 1;            // 0: the prompt is read and nothing sampled
  std::uint32_t first_id = 0, id_count = 0;  // in Workload::ids
  int priority = 0;
};

struct Workload {
  std::string name;
  std::vector<Request> requests;   // in order of arrival
  std::vector<std::uint64_t> ids;  // of prompts, each standing for id_tokens tokens
  std::int64_t id_tokens = 512;
  int concurrency = 0;  // > 0: a closed loop; so many clients, each sends its next request think_s after a reply's end
  double think_s = 0;
  std::vector<std::string> notes;  // what was made of the data: "len_scale 0.0625", ...

  std::span<const std::uint64_t> ids_of(const Request& request) const {
    return std::span(ids).subspan(request.first_id, request.id_count);
  }
};

// Of a running state and the next piece: equal pieces give equal states, others do with a chance of 2^-64.
std::uint64_t mix(std::uint64_t state, std::uint64_t piece);

// kInvalidArgument naming the request and the field that is out of range.
Status check_workload(const Workload& workload);

// Ids of the outline of request number `index` (kv::KvConfig::ids_per_block = kOutlineIds) in blocks of so many tokens,
// prompt and reply.
inline constexpr int kOutlineIds = 2;
std::vector<TokenId> outline(const Workload& workload, std::size_t index, int block_tokens);

}  // namespace weir::plan::sim
