// Workload: what is asked of a server and when, drawn whole before the first request is sent. The same spec and seed
// give the same requests; another seed shares no prompt with it, so a server's prefix cache knows none of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "traffic/arrivals.h"
#include "traffic/lengths.h"
#include "traffic/trace.h"

namespace weir::driver {

struct WorkloadSpec {
  std::size_t requests = 100;
  std::uint64_t seed = 0;
  std::uint64_t text_seed = 0;  // of what prompts say: others give other prompts of the same lengths and times
  traffic::Arrivals arrivals;
  traffic::Lengths prompt, output;  // of the prompt without the shared prefix
  int prefix_groups = 0;            // every request begins with the prefix of one of so many groups ...
  std::int64_t prefix_tokens = 0;
  TokenId lowest_token = 1000, token_count = 16000;  // prompts are of the ids [lowest, lowest + count)
  bool text = false;                                 // prompts of words, about one token each, instead of ids
  traffic::Trace trace;                              // where arrivals or lengths are the trace's
};

struct PlannedRequest {
  double at_s = 0;  // from the start
  int group = -1;   // of shared prefixes
  std::int64_t prefix_tokens = 0, own_tokens = 0, output_tokens = 0;
  std::int64_t prompt_tokens() const { return prefix_tokens + own_tokens; }
};

class Workload {
 public:
  // Fails where the trace is too short or has no times.
  static Result<Workload> draw(WorkloadSpec spec);

  const WorkloadSpec& spec() const { return spec_; }
  const std::vector<PlannedRequest>& requests() const { return requests_; }
  // Made when asked for: a run's prompts together may be large.
  std::vector<TokenId> prompt(std::size_t request) const;
  std::string prompt_text(std::size_t request) const;  // the same as words

 private:
  WorkloadSpec spec_;
  std::vector<PlannedRequest> requests_;
};

}  // namespace weir::driver
