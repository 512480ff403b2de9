// `weir plan sim` and `weir plan goodput`: a load on simulated instances.
#include <fstream>
#include <memory>

#include "apps/commands.h"
#include "apps/plan_command.h"
#include "base/printable.h"
#include "plan/sim/goodput.h"
#include "plan/sim/sim_report.h"

namespace weir::apps {

namespace {

namespace sim = plan::sim;

struct Options {
  Options() { scenario.block_size = 0; }  // the load's natural one
  sim::ScenarioSpec scenario;
  sim::LoadSpec load;
  sim::SimSpec sim;
  sim::GoodputSpec goodput;
  double ttft_ms = 0, tpot_ms = 0, e2e_ms = 0, share_percent = 99;
  bool no_prefix_caching = false, no_spread = false, not_layer_wise = false, json = false;
  std::string html, svg, requests_csv;
  int decode_tp = 0;
};

void add_scenario(CLI::App& command, Options& o) {
  sim::ScenarioSpec& s = o.scenario;
  const auto group = "Deployment";
  command.add_option("--model", s.model, "a folder, config.json, GGUF file or the name of a known model")->group(group);
  command.add_option("--hardware", s.hardware, "a device by name, or NAME,field=value,...")->group(group);
  command.add_option("--weights", s.weights, "type of the weights: bf16, fp8, int4, ...; else as the model's files")
      ->group(group);
  command.add_option("--backend", s.backend, "whose measured step times: vllm, sglang, trtllm; else what they share")
      ->group(group);
  command.add_option("--step-model", s.step_model, "a JSON file that says how long steps take")->group(group);
  command.add_option("--tp", s.layout.tp, "devices that share each layer")->group(group)->capture_default_str();
  command.add_option("--pp", s.layout.pp, "stages of layers")->group(group);
  command.add_option("--dp", s.layout.dp, "groups that share sequences for attention")->group(group);
  command.add_option("--ep", s.layout.ep, "devices that share the experts")->group(group);
  command.add_option("--instances", s.instances, "instances, or prefill instances")
      ->group(group)
      ->capture_default_str();
  command.add_option("--decode-instances", s.decode_instances, "decode instances: prefill and decoding are apart")
      ->group(group);
  command.add_option("--decode-tp", o.decode_tp, "as --tp, of decode instances")
      ->check(CLI::Range(1, 4096))
      ->group(group);
  command.add_option("--link-gbs", s.link_gbs, "GB/s of an instance's link for KV; 0: takes no time")->group(group);
  command.add_option("--link-latency-ms", s.link_latency_ms, "of each hand-over")->group(group);
  command.add_flag("--not-layer-wise", o.not_layer_wise, "KV leaves when the whole prompt has been read")->group(group);
  command.add_option("--tier", s.tiers, "KV tier NAME:GIGABYTES:GB_PER_S[:shared], nearest first; again for more")
      ->group(group);
  command.add_option("--router", s.router, "round-robin, least-loaded or prefix-aware")
      ->group(group)
      ->capture_default_str();
  command.add_option("--kv-bits", s.kv_bits, "of an element of keys and values")->group(group)->capture_default_str();
  command.add_option("--kv-bytes-per-token", s.kv_bytes_per_token, "without --model: for links and tiers")
      ->group(group);
  command.add_option("--memory-share", s.memory_share, "of a device's memory, for weights and KV")
      ->group(group)
      ->capture_default_str();
  command.add_option("--block-size", s.block_size, "tokens in a KV block; else as many as an id of the trace, or 16")
      ->group(group);
  command.add_option("--num-kv-blocks", s.num_blocks, "of an instance; else what fits")
      ->check(CLI::Range(1, 1'000'000'000))
      ->group(group);
  command.add_option("--max-num-seqs", s.max_num_seqs, "most sequences in a step")->group(group)->capture_default_str();
  command.add_option("--max-num-batched-tokens", s.max_num_batched_tokens, "most tokens in a step")
      ->group(group)
      ->capture_default_str();
  command.add_option("--max-model-len", s.max_model_len, "most tokens of a prompt and its reply")->group(group);
  command.add_flag("--no-prefix-caching", o.no_prefix_caching)->group(group);
  command.add_option("--scheduling-policy", s.policy, "fcfs or priority")->group(group)->capture_default_str();
  command.add_option("--request-overhead-ms", s.request_overhead_ms, "from sending to the queue")->group(group);
  command.add_option("--prompt-token-overhead-us", s.prompt_token_overhead_us, "more, for each token of the prompt")
      ->group(group);
  command.add_option("--output-overhead-ms", s.output_overhead_ms, "from a step's end to the client")->group(group);
}

void add_load(CLI::App& command, Options& o) {
  sim::LoadSpec& l = o.load;
  const auto group = "Load";
  command.add_option("--trace", l.trace, "Mooncake's JSON lines, Azure's table, or a table of lengths")->group(group);
  command
      .add_option("--arrivals", l.arrivals,
                  "poisson:RATE, gamma:RATE:CV, constant:RATE, burst:RATE:SIZE, at-once, closed:CLIENTS[:THINK_S]")
      ->group(group);
  command
      .add_option("--prompt", l.prompt, "tokens of a prompt: N, uniform:LOW:HIGH, lognormal:MEDIAN:SIGMA[:LOW:HIGH]")
      ->group(group);
  command.add_option("--output", l.output, "tokens of a reply, likewise")->group(group);
  command.add_option("--requests", l.requests, "how many; else all of a trace, 1000 otherwise")
      ->check(CLI::Range(std::int64_t{1}, sim::kMostRequests))
      ->group(group);
  command.add_option("--prefix-tokens", l.prefix_tokens, "before each prompt, one of --prefix-groups shared prefixes")
      ->group(group);
  command.add_option("--prefix-groups", l.prefix_groups)->group(group)->capture_default_str();
  command.add_option("--len-scale", l.len_scale, "of a trace's lengths")->group(group);
  command.add_option("--time-scale", l.time_scale, "of a trace's times: 0.5 is twice the rate")->group(group);
  command.add_flag("--no-spread", o.no_spread, "leave requests of one tick of a trace at one time")->group(group);
  command.add_option("--seed", o.sim.seed)->group(group)->capture_default_str();
}

void add_promise(CLI::App& command, Options& o) {
  command.add_option("--ttft-ms", o.ttft_ms, "promised time to the first token")
      ->check(CLI::Range(1e-6, 1e12))
      ->group("Promise");
  command.add_option("--tpot-ms", o.tpot_ms, "promised mean time of a token after it")
      ->check(CLI::Range(1e-6, 1e12))
      ->group("Promise");
  command.add_option("--e2e-ms", o.e2e_ms, "promised time to the last token")
      ->check(CLI::Range(1e-6, 1e12))
      ->group("Promise");
  command.add_option("--share", o.share_percent, "percent of requests that must get it")
      ->group("Promise")
      ->capture_default_str();
  command.add_flag("--json", o.json, "as JSON");
}

// What flags say the other way round, and units.
Status settle(Options& o) {
  o.scenario.prefix_caching = !o.no_prefix_caching;
  o.scenario.layer_wise = !o.not_layer_wise;
  o.load.spread = !o.no_spread;
  if (o.decode_tp != 0) {
    o.scenario.decode_layout = o.scenario.layout;
    o.scenario.decode_layout->tp = o.decode_tp;
  }
  sim::Slo& slo = o.sim.slo;
  const auto promise = [](double ms, std::optional<double>& target, const char* option) -> Status {
    if (ms == 0) return {};
    if (!(ms > 0 && ms < 1e12))
      return fail_at(option, ErrorCode::kInvalidArgument, "--{} is {}; it must be above 0", option, ms);
    target = ms / 1e3;
    return {};
  };
  WEIR_RETURN_IF_ERROR(promise(o.ttft_ms, slo.ttft_s, "ttft-ms"));
  WEIR_RETURN_IF_ERROR(promise(o.tpot_ms, slo.tpot_s, "tpot-ms"));
  WEIR_RETURN_IF_ERROR(promise(o.e2e_ms, slo.e2e_s, "e2e-ms"));
  slo.share = o.share_percent / 100;
  if (!(slo.share > 0 && slo.share < 1)) {
    return fail_at("share", ErrorCode::kInvalidArgument, "--share is {} %; above 0 to below 100 is possible",
                   o.share_percent);
  }
  o.sim.want_page = !o.html.empty();
  o.sim.want_picture = !o.svg.empty();
  o.sim.want_requests = !o.requests_csv.empty();
  o.goodput.slo = slo;
  o.goodput.seed = o.sim.seed;
  return {};
}

Status write(const std::string& path, const std::string& text, const char* option) {
  if (path.empty()) return {};
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.flush();
  if (!file) return fail_at(option, ErrorCode::kInvalidArgument, "--{} {}: cannot write it", option, printable(path));
  return {};
}

struct Subject {
  sim::Scenario scenario;
  sim::Load load;
};

Result<Subject> read_subject(Options& o) {
  WEIR_RETURN_IF_ERROR(settle(o));
  WEIR_TRY(sim::Load load, sim::Load::make(o.load));
  if (o.scenario.block_size == 0) o.scenario.block_size = load.natural_block_size();
  WEIR_TRY(sim::Scenario scenario, sim::make_scenario(o.scenario));
  return Subject{std::move(scenario), std::move(load)};
}

Result<plan::Report> run_sim(Options& o) {
  WEIR_TRY(const Subject subject, read_subject(o));
  const auto& [scenario, load] = subject;
  WEIR_TRY(sim::SimReport made, sim::simulate_load(scenario, load, o.sim));
  WEIR_RETURN_IF_ERROR(write(o.html, made.page, "html"));
  WEIR_RETURN_IF_ERROR(write(o.svg, made.picture, "svg"));
  WEIR_RETURN_IF_ERROR(write(o.requests_csv, made.requests, "requests-csv"));
  return std::move(made.report);
}

Result<plan::Report> run_goodput(Options& o) {
  WEIR_TRY(const Subject subject, read_subject(o));
  return sim::goodput_report(subject.scenario, subject.load, o.goodput);
}

}  // namespace

void add_plan_sim(CLI::App& plan, int& status) {
  auto options = std::make_shared<Options>();
  auto* command =
      plan.add_subcommand("sim", "simulate a load on one or many instances: latencies, goodput, hit rates, use");
  add_scenario(*command, *options);
  add_load(*command, *options);
  add_promise(*command, *options);
  command->add_option("--seeds", options->sim.seeds, "runs, with seed, seed + 1, ...: intervals")
      ->capture_default_str();
  command->add_option("--html", options->html, "also write a page with pictures to this file");
  command->add_option("--svg", options->svg, "also write the pictures alone to this file");
  command->add_option("--requests-csv", options->requests_csv, "also write every request's times to this file");
  command->callback([options, &status] { status = print_report(run_sim(*options), options->json); });
}

void add_plan_goodput(CLI::App& plan, int& status) {
  auto options = std::make_shared<Options>();
  auto* command = plan.add_subcommand("goodput", "the highest rate at which requests get what is promised");
  add_scenario(*command, *options);
  add_load(*command, *options);
  add_promise(*command, *options);
  command->add_option("--seeds", options->goodput.seeds, "runs at each rate")->capture_default_str();
  command->add_option("--precision", options->goodput.precision, "of the rate")->capture_default_str();
  command->callback([options, &status] { status = print_report(run_goodput(*options), options->json); });
}

}  // namespace weir::apps
