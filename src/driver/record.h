// RequestRecord: what became of one request. Times are monotonic seconds (base/clock.h) of the driver's own machine;
// every latency runs from `scheduled_s`, the time the request was due, whether or not the driver was ready to send it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weir::driver {

// Where the number of tokens of a reply comes from, best first. Chunks are counted only where the server says nothing
// else: they may hold several tokens.
enum class CountedBy { kUsage, kIds, kChunks, kNothing };

// What came at one time. Several tokens in one event, or several events in one read of the socket, came together.
struct TokenArrival {
  double at_s = 0;
  double tokens = 0;
};

struct RequestRecord {
  std::size_t index = 0;
  double scheduled_s = 0;    // due
  double sent_s = 0;         // the request's first byte was handed to the socket
  double first_byte_s = 0;   // of the reply, its head included
  double first_token_s = 0;  // 0: none came
  double last_token_s = 0;
  double done_s = 0;  // the reply was whole, or the request failed
  std::int64_t asked_prompt_tokens = 0, asked_output_tokens = 0;
  std::int64_t prompt_tokens = 0, cached_tokens = 0;  // the server's count; 0: it said none
  std::int64_t output_tokens = 0;
  CountedBy counted_by = CountedBy::kNothing;
  std::vector<TokenArrival> arrivals;
  bool queued_in_client = false;  // waited for --max-concurrency
  int status = 0;                 // HTTP; 0: there was no answer
  std::string error;              // empty: it went well

  bool ok() const { return error.empty(); }
  double lag_s() const { return sent_s - scheduled_s; }
  double ttft_s() const { return first_token_s - scheduled_s; }
  double e2e_s() const { return done_s - scheduled_s; }
  // (last token - first token) / (tokens - 1); 0 for replies of one token.
  double tpot_s() const {
    return output_tokens > 1 ? (last_token_s - first_token_s) / static_cast<double>(output_tokens - 1) : 0.0;
  }
};

}  // namespace weir::driver
