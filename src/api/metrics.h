// Metrics: what /metrics shows, in Prometheus text form, under vLLM's names with the prefix "weir:". Thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "engine/engine.h"

namespace weir::api {

// Times in seconds. Negative: there was none (a request that was cancelled while it waited has no first token).
struct RequestRecord {
  std::string_view finished_reason;  // "stop", "length", "abort", "error"
  std::int64_t prompt_tokens = 0, cached_tokens = 0, generation_tokens = 0;
  std::int64_t max_tokens = 0;
  int n = 1;
  double e2e_s = -1, queue_s = -1, prefill_s = -1, decode_s = -1, inference_s = -1, time_per_output_token_s = -1;
};

class Metrics {
 public:
  Metrics(const std::string& model_name, std::int64_t max_model_len);
  ~Metrics();

  void count_prompt(std::int64_t tokens, std::int64_t cached);
  void count_generated(std::int64_t tokens);
  void observe_first_token(double seconds);
  void observe_inter_token(double seconds);
  void observe_request(const RequestRecord& record);
  void count_http(std::string_view route, std::string_view method, int status);
  void set_info(const engine::EngineInfo& info);

  // Engine counters are taken over as they stand.
  std::string scrape(const engine::EngineStats& stats);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weir::api
