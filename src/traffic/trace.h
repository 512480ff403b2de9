// Traces of requests: Mooncake's JSON lines, Azure's tables, tables of lengths. Files of others: nothing is trusted.
#pragma once

#include <cstdint>
#include <istream>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "traffic/lengths.h"

namespace weir::traffic {

inline constexpr std::size_t kMostTraceRows = 20'000'000;

struct TraceRow {
  double at_s = 0;  // from the trace's first
  std::int64_t prompt_tokens = 1, output_tokens = 0;
  std::uint32_t first_id = 0, id_count = 0;  // in Trace::ids
};

struct Trace {
  std::string path;
  std::vector<TraceRow> rows;      // in order of time
  std::vector<std::uint64_t> ids;  // of prompts' leading pieces: equal ids in equal places are equal text
  std::int64_t id_tokens = 512;    // Mooncake's "hash_ids": one for 512 tokens, the last perhaps for fewer
  bool has_times = true;           // else the file has lengths only
  double tick_s = 0;               // > 0: all times are multiples of it, and most are equal to the one before

  std::span<const std::uint64_t> ids_of(const TraceRow& row) const {
    return std::span(ids).subspan(row.first_id, row.id_count);
  }
};

// One of, in UTF-8, told apart by the first line:
//   JSON lines with timestamp (ms), input_length, output_length and perhaps hash_ids       (Mooncake, FAST'25)
//   a table with the columns TIMESTAMP, ContextTokens, GeneratedTokens                     (Azure, Splitwise)
//   a table with num_prefill_tokens, num_decode_tokens                                     (Vidur)
// kCorruptFile names line and field. At most `limit` rows.
Result<Trace> read_trace(const std::string& path, std::size_t limit = kMostTraceRows);
// The same of what is read from `in`, which errors call `name`.
Result<Trace> parse_trace(std::istream& in, const std::string& name, std::size_t limit = kMostTraceRows);

}  // namespace weir::traffic
