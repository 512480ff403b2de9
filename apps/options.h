// What the commands take from the command line. Filled in main.cpp; plain data, so that only main.cpp includes CLI11.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace weir::apps {

struct ModelOptions {
  std::string model;                               // a path, or owner/name[:file]
  std::string chat_template;                       // a file; empty: the model's own
  std::string reasoning_parser, tool_call_parser;  // empty: as the chat template says
  std::string speculative_config;
  engine::EngineConfig engine;
};

struct ServeOptions {
  ModelOptions model;
  std::string host = "127.0.0.1";
  std::uint16_t port = 8000;
  std::string served_model_name;
  std::string api_key;
  std::optional<std::uint64_t> seed;
  std::string log_level = "info";
  double shutdown_timeout_s = 30;
  std::uint64_t max_request_bytes = 32 * 1024 * 1024;
  int max_connections = 1024;
  std::string step_log;  // a file; empty: none
};

struct SamplingOptions {
  std::optional<double> temperature, top_p, min_p, repetition_penalty;
  std::optional<std::int64_t> top_k, max_tokens;
  std::optional<std::uint64_t> seed;
};

struct RunOptions {
  ModelOptions model;
  SamplingOptions sampling;
  std::string prompt;  // run only
  std::string system;
  bool raw = false;  // run only: no chat template
};

struct BenchOptions {
  ModelOptions model;
  std::int64_t prompt_tokens = 512, output_tokens = 128;
  int batch = 1;
  int repetitions = 1;
  std::uint64_t seed = 1;
  bool json = false;
};

struct PerplexityOptions {
  ModelOptions model;
  std::string text;             // a file
  std::string against;          // another model; empty: the same
  std::string against_compute;  // auto or exact; empty: as the model
  std::string against_logits;   // a file of llama-perplexity
  std::int64_t context = 512, stride = 0, chunks = 0;
  bool json = false;
};

struct InspectCommandOptions {
  std::string model;
  bool json = false, all_tensors = false;
  std::int64_t context = 0, batch = 1;  // 0: the model's
};

struct PullCommandOptions {
  std::string model;
  std::string revision, token, cache_dir;  // empty: what MODEL or the environment says
  std::optional<int> retries;
};

struct MachineOptions {
  int threads = 0;
  std::string isa;  // "" = best
  bool json = false;
};

// Empty lists: everything.
struct KernelOptions {
  std::vector<std::string> ops, types;
  std::vector<std::int64_t> rows;
};

struct QuantizeOptions {
  std::string in, out, type;
  int threads = 0;
};

}  // namespace weir::apps
