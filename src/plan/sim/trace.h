// Traces of requests: Mooncake's JSON lines, Azure's tables, tables of lengths. Files of others: nothing is trusted.
#pragma once

#include <cstdint>
#include <istream>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "plan/sim/workload.h"

namespace weir::plan::sim {

struct Trace {
  std::string path;
  std::vector<Request> requests;  // times in seconds from the first
  std::vector<std::uint64_t> ids;
  std::int64_t id_tokens = 512;  // Mooncake's: "hash_ids", one for 512 tokens, the last perhaps for fewer
  bool has_times = true;         // else the file has lengths only
  double tick_s = 0;             // > 0: all times are multiples of it, and most are equal to the one before
};

// One of, in UTF-8, told apart by the first line:
//   JSON lines with timestamp (ms), input_length, output_length and perhaps hash_ids       (Mooncake, FAST'25)
//   a table with the columns TIMESTAMP, ContextTokens, GeneratedTokens                     (Azure, Splitwise)
//   a table with num_prefill_tokens, num_decode_tokens                                     (Vidur)
// kCorruptFile names line and field. At most `limit` requests.
Result<Trace> read_trace(const std::string& path, std::size_t limit = kMostRequests);
// The same of what is read from `in`, which errors call `name`.
Result<Trace> parse_trace(std::istream& in, const std::string& name, std::size_t limit = kMostRequests);

struct Replay {
  double len_scale = 1;   // of lengths and of what an id stands for
  double time_scale = 1;  // of times: 0.5 is twice the rate
  bool spread = true;     // requests of one tick over that tick, drawn by `seed`
  std::uint64_t seed = 1;
};

// The trace as a workload; its notes say what was made of it. kInvalidArgument for a trace without times.
Result<Workload> replay(const Trace& trace, const Replay& how);

// Requests a second over the trace's span.
double mean_rate(const Workload& workload);

}  // namespace weir::plan::sim
