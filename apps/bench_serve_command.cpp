// `weir bench serve`: load on an OpenAI server, and what its clients saw.
#include "apps/bench_serve_command.h"

#include <fmt/core.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <random>

#include "apps/commands.h"
#include "apps/number_range.h"
#include "base/printable.h"
#include "driver/driver.h"
#include "driver/metrics.h"
#include "traffic/fields.h"

namespace weir::apps {
namespace {

struct Options {
  driver::DriverOptions driver;
  std::string arrivals = "at-once", input_len = "256", output_len = "64", trace, output, token_ids = "1000:17000";
  std::size_t requests = 0;  // 0: 100, or the whole trace
  std::size_t warm_up = 1;
  int prefix_groups = 0;
  std::int64_t prefix_tokens = 0;
  std::optional<std::uint64_t> seed;
  std::vector<std::string> goodput;
  bool text = false, no_stream = false, eos = false, json = false;
};

constexpr std::size_t kDefaultRequests = 100, kMaxRequests = 1'000'000;
constexpr std::uint64_t kWarmUpSeed = 0x7761726D7570;  // prompts of the warm-up are no others'

Result<driver::Slo> parse_slo(const std::vector<std::string>& limits) {
  driver::Slo slo;
  for (const std::string& text : limits) {
    const auto parts = traffic::split_fields(text, ':');
    std::optional<double>* limit = parts.size() != 2    ? nullptr
                                   : parts[0] == "ttft" ? &slo.ttft_s
                                   : parts[0] == "tpot" ? &slo.tpot_s
                                   : parts[0] == "e2el" ? &slo.e2e_s
                                                        : nullptr;
    if (limit == nullptr) {
      return fail_at("goodput", ErrorCode::kInvalidArgument, "--goodput '{}' is not ttft:MS, tpot:MS or e2el:MS",
                     printable(text.substr(0, 80)));
    }
    WEIR_TRY(const double ms, traffic::number_field("goodput", parts[1], 1e-3, 1e9));
    *limit = ms / 1e3;
  }
  return slo;
}

Result<driver::WorkloadSpec> workload_spec(const Options& options) {
  driver::WorkloadSpec spec;
  WEIR_TRY(spec.arrivals, traffic::parse_arrivals(options.arrivals));
  WEIR_TRY(spec.prompt, traffic::parse_lengths("input-len", options.input_len));
  WEIR_TRY(spec.output, traffic::parse_lengths("output-len", options.output_len));
  if (!options.trace.empty()) {
    WEIR_TRY(spec.trace, traffic::read_trace(options.trace, options.requests > 0 ? options.requests : kMaxRequests));
  }
  spec.requests = options.requests > 0      ? options.requests
                  : spec.trace.rows.empty() ? kDefaultRequests
                                            : spec.trace.rows.size();
  const auto ids = traffic::split_fields(options.token_ids, ':');
  if (ids.size() != 2)
    return fail_at("token-ids", ErrorCode::kInvalidArgument, "--token-ids '{}' is not LOWEST:END",
                   printable(options.token_ids.substr(0, 80)));
  constexpr double kMaxId = 1 << 24;
  WEIR_TRY(const double lowest, traffic::number_field("token-ids", ids[0], 0, kMaxId));
  WEIR_TRY(const double end, traffic::number_field("token-ids", ids[1], lowest + 1, kMaxId));
  spec.lowest_token = static_cast<TokenId>(lowest);
  spec.token_count = static_cast<TokenId>(end) - spec.lowest_token;
  spec.prefix_groups = options.prefix_groups;
  spec.prefix_tokens = options.prefix_tokens;
  spec.text = options.text;
  std::random_device entropy;
  spec.seed = options.seed.value_or(entropy());
  return spec;
}

Status warm_up(const Options& options, const driver::WorkloadSpec& spec) {
  if (options.warm_up == 0) return {};
  driver::WorkloadSpec warm = spec;
  warm.requests = options.warm_up;
  warm.seed = spec.seed ^ kWarmUpSeed;
  warm.arrivals = {.kind = traffic::Arrivals::Kind::kClosed, .concurrency = 1};
  if (!warm.trace.rows.empty()) warm.prompt = warm.output = {};
  WEIR_TRY(const auto workload, driver::Workload::draw(std::move(warm)));
  WEIR_TRY(const auto run, driver::run_workload(workload, options.driver));
  for (const auto& record : run.records) {
    if (!record.ok()) return fail(ErrorCode::kInternal, "the first request failed: {}", printable(record.error));
  }
  return {};
}

Status write_records(const std::string& path, const driver::RunResult& run) {
  std::ofstream out(path);
  for (const auto& record : run.records) out << driver::to_json(record, run.start_s).dump() << '\n';
  out.flush();
  if (!out) return fail_at("output", ErrorCode::kInvalidArgument, "--output {}: cannot write it", printable(path));
  return {};
}

Status bench_serve(Options options) {
  options.driver.stream = !options.no_stream;
  options.driver.ignore_eos = !options.eos;
  WEIR_TRY(const driver::Slo slo, parse_slo(options.goodput));
  WEIR_TRY(auto spec, workload_spec(options));
  WEIR_TRY(const auto workload, driver::Workload::draw(spec));
  WEIR_RETURN_IF_ERROR(warm_up(options, spec));
  const std::size_t total = workload.requests().size();
  if (isatty(STDERR_FILENO) != 0) {
    options.driver.on_progress = [total](std::size_t done) {
      if (done % 16 == 0 || done == total)
        fmt::print(stderr, "\r{} of {} requests{}", done, total, done == total ? "\n" : "");
    };
  }
  WEIR_TRY(const auto run, driver::run_workload(workload, options.driver));
  if (!options.output.empty()) WEIR_RETURN_IF_ERROR(write_records(options.output, run));
  const auto summary = driver::summarise(run, workload, slo);
  if (options.json) {
    auto json = driver::to_json(summary, workload, slo);
    json["model"] = run.model;
    fmt::print("{}\n", json.dump(2));
  } else {
    fmt::print("{}", driver::to_text(summary, workload, slo));
  }
  if (summary.completed == 0) return fail(ErrorCode::kInternal, "no request succeeded");
  return {};
}

}  // namespace

void add_bench_serve(CLI::App& bench, int& status) {
  auto* command = bench.add_subcommand("serve", "load on an OpenAI server: latencies from when requests were due");
  auto options = std::make_shared<Options>();
  command->add_option("--base-url", options->driver.base_url, "the server: http://HOST:PORT")->capture_default_str();
  command->add_option("--model", options->driver.model, "what requests call the model; otherwise the server's first");
  command->add_option("--api-key", options->driver.api_key, "the server's key")->envname("WEIR_API_KEY");
  command
      ->add_option("--arrivals", options->arrivals,
                   "poisson:RATE, gamma:RATE:CV, constant:RATE, burst:RATE:SIZE, closed:CLIENTS, at-once or "
                   "trace[:SPEED]; RATE in requests/s")
      ->capture_default_str();
  command->add_option("--num-prompts", options->requests, "requests; otherwise 100, or as many as the trace has")
      ->check(CLI::Range(std::size_t{1}, kMaxRequests));
  command
      ->add_option("--input-len", options->input_len,
                   "tokens of prompts: a number, uniform:LOW:HIGH, lognormal:MEDIAN:SIGMA[:LOW:HIGH] or trace")
      ->capture_default_str();
  command->add_option("--output-len", options->output_len, "tokens of replies, in the same forms")
      ->capture_default_str();
  command->add_option("--trace", options->trace,
                      "a file of requests: JSON lines (timestamp, input_length, output_length, hash_ids) or a table "
                      "(TIMESTAMP, ContextTokens, GeneratedTokens)");
  command->add_option("--prefix-groups", options->prefix_groups, "shared prefixes; each prompt begins with one of them")
      ->check(CLI::Range(0, 1 << 20));
  command->add_option("--prefix-len", options->prefix_tokens, "tokens of a shared prefix")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 24));
  command->add_option("--token-ids", options->token_ids, "prompts are random ids of [LOWEST, END)")
      ->type_name("LOWEST:END")
      ->capture_default_str();
  command->add_flag("--text", options->text, "prompts of words, for servers that take no token ids");
  command
      ->add_option("--max-concurrency", options->driver.max_in_flight,
                   "most requests under way; others wait in the driver while their clocks run")
      ->check(CLI::Range(0, 1 << 16));
  command->add_option("--seed", options->seed, "of everything drawn; otherwise a new one, so that no prompt is cached");
  command->add_option("--warm-up", options->warm_up, "requests before, one after the other, that do not count")
      ->check(CLI::Range(std::size_t{0}, kMaxRequests))
      ->capture_default_str();
  command->add_option("--goodput", options->goodput, "limits in ms that good requests keep: ttft:MS tpot:MS e2el:MS");
  command->add_option("--temperature", options->driver.temperature, "of sampling")->check(number_range(0.0, 100.0));
  command->add_flag("--eos", options->eos, "let replies end where the model ends them");
  command->add_flag("--no-stream", options->no_stream, "whole replies: no TTFT or TPOT of their own");
  command->add_option("--timeout", options->driver.timeout_s, "seconds for one request, from when it was due")
      ->check(number_range(0.001, 1e6))
      ->capture_default_str();
  command->add_option("--output", options->output, "a file that gets one JSON object for each request");
  command->add_flag("--json", options->json, "as JSON");
  command->callback([options, &status] {
    const Status done = bench_serve(*options);
    status = done ? 0 : fail_with(done.error());
  });
}

}  // namespace weir::apps
