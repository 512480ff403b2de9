#include "plan/sim/scenario.h"

#include <algorithm>
#include <cmath>

#include "base/printable.h"
#include "plan/calibrated_step.h"
#include "plan/memory.h"
#include "plan/search/card_instance.h"
#include "plan/sim/simple_step.h"
#include "traffic/fields.h"

namespace weir::plan::sim {

namespace {

constexpr std::size_t kDefaultRequests = 1000;
constexpr std::size_t kMostTiers = 8;

Result<Tier> parse_tier(const std::string& text) {
  const auto fields = traffic::split_fields(text, ':');
  const bool shared = fields.size() == 4 && fields[3] == "shared";
  if (fields.size() == 3 || shared) {
    const auto gigabytes = traffic::number_in(fields[1], 0, 1e9), rate = traffic::number_in(fields[2], 1e-6, 1e9);
    if (gigabytes && rate && !fields[0].empty())
      return Tier{std::string(fields[0]), *gigabytes * 1e9, *rate * 1e9, 0, shared};
  }
  return fail_at("tier", ErrorCode::kInvalidArgument,
                 "--tier '{}' is not NAME:GIGABYTES:GB_PER_S or NAME:GIGABYTES:GB_PER_S:shared, such as dram:1000:50",
                 printable(text));
}

// What the model's card says of an instance.
struct Sized {
  std::unique_ptr<StepModel> model;
  std::vector<int> windows;
  std::uint32_t num_blocks = 0;
  std::int64_t state_blocks = 0;
  double kv_bytes_per_token = 0;
  int layers = 1;
};

Result<Sized> size_instance(const ScenarioSpec& spec, const ModelCard& card, const Hardware& hardware,
                            const ParallelLayout& layout, std::vector<std::string>& assumptions) {
  Sized sized;
  MemoryOptions options;
  options.layout = layout;
  options.types = card.types;
  if (!spec.weights.empty()) {
    WEIR_TRY(options.types, parse_weight_types(spec.weights));
  }
  options.kv_bits = spec.kv_bits;
  options.block_tokens = spec.block_size;
  options.step_tokens = spec.max_num_batched_tokens;
  options.sequences = spec.max_num_seqs;
  options.memory_share = spec.memory_share;
  WEIR_TRY(const MemoryUse memory, memory_use(card, hardware, options));
  if (spec.num_blocks == 0) WEIR_RETURN_IF_ERROR(check_fits(card, hardware, options, memory, spec.block_size));
  for (const kv::KvGroup& group : memory.kv_layout.groups) sized.windows.push_back(group.window);
  sized.state_blocks = memory.kv_layout.state_blocks;
  sized.layers = card.spec.layers;
  // Groups of devices with sequences of their own (DP, CP) count as one pool.
  const auto fitting = static_cast<double>(memory.blocks) * memory.copies * memory.context_parts;
  sized.num_blocks =
      static_cast<std::uint32_t>(std::min(spec.num_blocks > 0 ? static_cast<double>(spec.num_blocks) : fitting, 2e9));
  const KvCost cost = kv_cost(card, spec.kv_bits);
  const double beyond = cost.per_token_beyond_windows();
  sized.kv_bytes_per_token = beyond > 0 ? beyond : cost.per_token();
  assumptions.push_back(
      fmt::format("{}, {} on {} x {}: {} weights, {} KV blocks of {} tokens, {:.1f} KiB of KV a token; of each "
                  "device's {:.1f} GB weights "
                  "take {:.1f}, workspace {:.1f}, KV {:.1f}",
                  card.name, layout.name(), layout.devices(), hardware.name, options.types.name, sized.num_blocks,
                  spec.block_size, sized.kv_bytes_per_token / 1024, memory.memory_bytes / 1e9,
                  memory.weights.total() / 1e9, (memory.workspace_bytes + memory.reserved_bytes) / 1e9,
                  static_cast<double>(memory.blocks) * memory.block_bytes / 1e9));
  if (!spec.step_model.empty()) return sized;
  const CardSource source(card, hardware, spec.backend);
  WEIR_RETURN_IF_ERROR(source.check_backend());
  WEIR_TRY(auto step, source.make(layout, {options.types, spec.kv_bits}));
  constexpr std::int64_t kTokens = 1000;
  StepShape decode, prompt;
  decode.add(kTokens, kTokens + 1, true);
  prompt.add(0, kTokens, true);
  assumptions.push_back(fmt::format(
      "step times are {}: alone, a sequence at 1,000 tokens decodes in {:.3f} ms and a prompt of 1,000 takes {:.2f} ms",
      source.origin(), 1e3 * step->step_s(decode), 1e3 * step->step_s(prompt)));
  sized.model = std::move(step);
  return sized;
}

// Lengths that are drawn: those of a trace are what a load has without any others.
Result<Lengths> own_lengths(const char* option, const std::string& text) {
  WEIR_TRY(const Lengths lengths, traffic::parse_lengths(option, text));
  if (lengths.kind != Lengths::Kind::kTrace) return lengths;
  return fail_at(option, ErrorCode::kInvalidArgument, "--{} trace: leave it out, and lengths are those of --trace",
                 option);
}

Status check_spec(const ScenarioSpec& spec) {
  const auto wrong = [](std::string_view option, auto found, std::string_view allowed) {
    return fail_at(std::string(option), ErrorCode::kInvalidArgument, "--{} is {}; {}", option, found, allowed);
  };
  for (const ParallelLayout& layout : {spec.layout, spec.decode_layout.value_or(spec.layout)}) {
    for (const int degree : {layout.tp, layout.pp, layout.dp, layout.ep, layout.cp}) {
      if (degree < 1 || degree > 4096) return wrong("tp (or pp, dp, ep)", degree, "1 to 4096 devices are possible");
    }
  }
  if (!(spec.kv_bits >= 1 && spec.kv_bits <= 32)) return wrong("kv-bits", spec.kv_bits, "1 to 32 are possible");
  if (!(spec.memory_share > 0 && spec.memory_share <= 1))
    return wrong("memory-share", spec.memory_share, "above 0 to 1 is possible");
  if (spec.block_size < 1 || spec.block_size > (1 << 20))
    return wrong("block-size", spec.block_size, "1 to 1048576 tokens are possible");
  if (spec.num_blocks < 0 || spec.num_blocks > 1'000'000'000)
    return wrong("num-kv-blocks", spec.num_blocks, "1 to 1e9 are possible");
  if (spec.tiers.size() > kMostTiers) return wrong("tier", spec.tiers.size(), "at most 8 can be given");
  if (spec.link_gbs && !(*spec.link_gbs >= 0 && *spec.link_gbs <= 1e9))
    return wrong("link-gbs", *spec.link_gbs, "0 to 1e9 GB/s are possible");
  if (!(spec.kv_bytes_per_token >= 0 && spec.kv_bytes_per_token <= 1e12)) {
    return wrong("kv-bytes-per-token", spec.kv_bytes_per_token, "0 to 1e12 are possible");
  }
  for (const auto& [option, value] :
       {std::pair{"request-overhead-ms", spec.request_overhead_ms},
        std::pair{"prompt-token-overhead-us", spec.prompt_token_overhead_us},
        std::pair{"output-overhead-ms", spec.output_overhead_ms}, std::pair{"link-latency-ms", spec.link_latency_ms}}) {
    if (!(value >= 0 && value <= 1e9)) return wrong(option, value, "0 to 1e9 is possible");
  }
  return {};
}

// What the scenario says about one kind of instance, whatever it is sized by.
Result<InstanceConfig> instance_config(const ScenarioSpec& spec) {
  InstanceConfig config;
  config.scheduler.max_num_seqs = spec.max_num_seqs;
  config.scheduler.max_num_batched_tokens = spec.max_num_batched_tokens;
  config.scheduler.max_model_len = spec.max_model_len;
  config.scheduler.enable_prefix_caching = spec.prefix_caching;
  WEIR_TRY(config.scheduler.policy, sched::parse_policy(spec.policy));
  config.block_tokens = spec.block_size;
  config.num_blocks = static_cast<std::uint32_t>(spec.num_blocks);
  config.overheads = {spec.request_overhead_ms / 1e3, spec.prompt_token_overhead_us / 1e6,
                      spec.output_overhead_ms / 1e3};
  return config;
}

Status size_from_card(const ScenarioSpec& spec, Scenario& scenario) {
  Cluster& cluster = scenario.cluster;
  WEIR_TRY(auto read_card, read_model_card(spec.model));
  scenario.card = std::make_unique<const ModelCard>(std::move(read_card));
  const ModelCard& card = *scenario.card;
  if (spec.hardware.empty()) {
    return fail_at("hardware", ErrorCode::kInvalidArgument, "give --hardware, the device that serves {}", card.name);
  }
  WEIR_TRY(auto found, find_hardware(spec.hardware));
  scenario.hardware = std::make_unique<const Hardware>(std::move(found));
  const Hardware& hardware = *scenario.hardware;
  const ParallelLayout decode_layout = spec.decode_layout.value_or(spec.layout);
  const bool apart = spec.decode_instances > 0;
  const auto use = [&](const ParallelLayout& layout, const char* pool, InstanceConfig& config) -> Status {
    std::vector<std::string> assumptions;
    WEIR_TRY(Sized sized, size_instance(spec, card, hardware, layout, assumptions));
    for (const std::string& text : assumptions)
      scenario.assumptions.push_back(apart ? fmt::format("{} instances: {}", pool, text) : text);
    config.windows = sized.windows;
    config.num_blocks = sized.num_blocks;
    config.state_blocks = sized.state_blocks;
    cluster.kv_bytes_per_token = sized.kv_bytes_per_token;
    cluster.handover.layers = std::max(sized.layers, 1);
    if (sized.model) {
      config.model = sized.model.get();
      scenario.models.push_back(std::move(sized.model));
    }
    return {};
  };
  WEIR_RETURN_IF_ERROR(use(spec.layout, "prefill", cluster.instance));
  if (apart) WEIR_RETURN_IF_ERROR(use(decode_layout, "decode", cluster.decode));
  if (apart && !spec.link_gbs) {
    if (hardware.nic_gbit <= 0) {
      return fail_at("link-gbs", ErrorCode::kInvalidArgument,
                     "the network of {} is not known: give --link-gbs, an instance's link in GB/s (0: takes no time)",
                     hardware.name);
    }
    const int devices = std::min(spec.layout.devices(), decode_layout.devices());
    cluster.handover.bytes_s = devices * hardware.nic_gbit / 8 * 1e9;
  }
  return {};
}

// A file of `weir plan calibrate`, or the numbers of a SimpleStep.
Status use_step_model(const ScenarioSpec& spec, Scenario& scenario) {
  auto calibrated = CalibratedStep::read(spec.step_model);
  Cluster& cluster = scenario.cluster;
  if (calibrated) {
    const RequestOverheads& overheads = calibrated->overheads;
    Overheads& used = cluster.instance.overheads;
    if (used.request_s == 0 && used.prompt_token_s == 0 && used.output_s == 0) {
      used = {overheads.request_s, overheads.prompt_token_s, overheads.output_s};
      cluster.decode.overheads = used;
    }
    scenario.models.push_back(std::make_unique<CalibratedStep>(std::move(*calibrated)));
  } else if (calibrated.error().param == "format") {
    WEIR_TRY(const SimpleStep step, read_simple_step(spec.step_model));
    scenario.models.push_back(std::make_unique<SimpleStep>(step));
  } else {
    return tl::unexpected(calibrated.error());
  }
  cluster.instance.model = cluster.decode.model = scenario.models.back().get();
  return {};
}

}  // namespace

Result<Routing> parse_routing(std::string_view name) {
  if (name == "round-robin") return Routing::kRoundRobin;
  if (name == "least-loaded") return Routing::kLeastLoaded;
  if (name == "prefix-aware") return Routing::kPrefixAware;
  return fail_at("router", ErrorCode::kInvalidArgument,
                 "router '{}' is unknown; it can be round-robin, least-loaded or prefix-aware", name);
}

Result<Scenario> make_scenario(const ScenarioSpec& spec) {
  WEIR_RETURN_IF_ERROR(check_spec(spec));
  Scenario scenario;
  Cluster& cluster = scenario.cluster;
  cluster.instances = spec.instances;
  cluster.decode_instances = spec.decode_instances;
  cluster.kv_bytes_per_token = spec.kv_bytes_per_token;
  WEIR_TRY(cluster.routing, parse_routing(spec.router));
  WEIR_TRY(cluster.instance, instance_config(spec));
  cluster.decode = cluster.instance;
  cluster.handover.layer_wise = spec.layer_wise;
  cluster.handover.latency_s = spec.link_latency_ms / 1e3;
  if (!spec.model.empty()) {
    WEIR_RETURN_IF_ERROR(size_from_card(spec, scenario));
  } else if (spec.step_model.empty() || spec.num_blocks == 0) {
    return fail_at(
        "model", ErrorCode::kInvalidArgument,
        "give --model and --hardware, or --step-model and --num-kv-blocks: step times and memory come from them");
  } else if (spec.decode_instances > 0 && !spec.link_gbs) {
    return fail_at("link-gbs", ErrorCode::kInvalidArgument,
                   "give --link-gbs, an instance's link in GB/s (0: takes no time)");
  }
  if (spec.link_gbs) cluster.handover.bytes_s = *spec.link_gbs * 1e9;
  if (!spec.step_model.empty()) {
    WEIR_RETURN_IF_ERROR(use_step_model(spec, scenario));
    scenario.assumptions.push_back("step times are those of " + printable(spec.step_model));
  }
  for (const std::string& text : spec.tiers) {
    WEIR_TRY(Tier tier, parse_tier(text));
    cluster.tiers.push_back(std::move(tier));
  }
  if (cluster.decode_instances > 0) {
    scenario.assumptions.push_back(cluster.handover.bytes_s > 0
                                       ? fmt::format("KV goes to decode instances over {:.1f} GB/s a link, {}; it "
                                                     "waits in buffers for its turn and for room",
                                                     cluster.handover.bytes_s / 1e9,
                                                     cluster.handover.layer_wise
                                                         ? "layer by layer while the prompt is read"
                                                         : "when the prompt has been read")
                                       : "the way to decode instances takes no time");
  }
  return scenario;
}

Result<Load> Load::make(const LoadSpec& spec) {
  Load load;
  load.spec_ = spec;
  if (spec.prefix_tokens < 0 || spec.prefix_tokens > kMostTokens / 4 || spec.prefix_groups < 1 ||
      spec.prefix_groups > 1'000'000) {
    return fail_at("prefix-tokens", ErrorCode::kInvalidArgument,
                   "--prefix-tokens {} in --prefix-groups {}: 0 to {} in 1 to 1000000", spec.prefix_tokens,
                   spec.prefix_groups, kMostTokens / 4);
  }
  if (spec.requests < 0 || spec.requests > kMostRequests) {
    return fail_at("requests", ErrorCode::kInvalidArgument, "--requests {}: 1 to {} are possible; 0: all of a trace",
                   spec.requests, kMostRequests);
  }
  if (spec.trace.empty() && (spec.len_scale != 1 || spec.time_scale != 1)) {
    return fail_at("len-scale", ErrorCode::kInvalidArgument,
                   "--len-scale {} and --time-scale {}: they are of a --trace, and there is none", spec.len_scale,
                   spec.time_scale);
  }
  if (!spec.trace.empty()) {
    const bool limited = spec.arrivals.empty() && spec.requests > 0;
    WEIR_TRY(load.trace_,
             traffic::read_trace(spec.trace, static_cast<std::size_t>(limited ? spec.requests : kMostRequests)));
  }
  load.trace_times_ = spec.arrivals.empty() && load.trace_;
  if (load.trace_times_) {
    if (!spec.prompt.empty() || !spec.output.empty() || spec.prefix_tokens > 0) {
      return fail_at(
          "trace", ErrorCode::kInvalidArgument,
          "--trace says how long prompts and replies are; give --arrivals to use its lengths only, or leave --prompt, "
          "--output and --prefix-tokens out");
    }
    WEIR_TRY(const Workload once, replay(*load.trace_, {spec.len_scale, spec.time_scale, spec.spread, 1}));
    load.description_ = fmt::format("{} requests of {}", once.requests.size(), printable(once.name));
    load.at_any_rate_ = load.description_ + ", its times stretched or pressed to each rate";
    for (const std::string& note : once.notes) {
      load.description_ += "; " + note;
      if (!note.starts_with("time_scale")) load.at_any_rate_ += "; " + note;
    }
    return load;
  }
  GenerateSpec& generate = load.generate_;
  generate.requests = spec.requests > 0 ? static_cast<std::size_t>(spec.requests) : kDefaultRequests;
  generate.prefix_tokens = spec.prefix_tokens;
  generate.prefix_groups = spec.prefix_groups;
  WEIR_TRY(generate.arrivals, traffic::parse_arrivals(spec.arrivals.empty() ? "poisson:1" : spec.arrivals));
  if (generate.arrivals.kind == Arrivals::Kind::kTrace) {
    return fail_at("arrivals", ErrorCode::kInvalidArgument,
                   "--arrivals trace: leave it out, and times are those of --trace (--time-scale changes them)");
  }
  load.description_ = fmt::format("{} requests, {}", generate.requests, generate.arrivals.describe());
  load.at_any_rate_ = fmt::format("{} requests, {} at each rate", generate.requests, generate.arrivals.describe(false));
  const auto add = [&load](const std::string& text) {
    load.description_ += text;
    load.at_any_rate_ += text;
  };
  if (load.trace_ && spec.prompt.empty() && spec.output.empty()) {
    const auto scaled = [&](std::int64_t tokens) {
      return std::min(kMostTokens / 4,
                      static_cast<std::int64_t>(std::ceil(static_cast<double>(tokens) * spec.len_scale - 1e-9)));
    };
    if (!(spec.len_scale > 0 && spec.len_scale <= 1000)) {
      return fail_at("len-scale", ErrorCode::kInvalidArgument, "--len-scale {}: above 0 to 1000 is possible",
                     spec.len_scale);
    }
    for (const traffic::TraceRow& request : load.trace_->rows) {
      generate.empirical.emplace_back(std::max<std::int64_t>(1, scaled(request.prompt_tokens)),
                                      scaled(request.output_tokens));
    }
    add(fmt::format("; lengths drawn from {} of {}", generate.empirical.size(), printable(spec.trace)));
    return load;
  }
  const std::string prompt = spec.prompt.empty() ? "1024" : spec.prompt,
                    output = spec.output.empty() ? "256" : spec.output;
  WEIR_TRY(generate.prompt, own_lengths("prompt", prompt));
  WEIR_TRY(generate.output, own_lengths("output", output));
  add(fmt::format("; prompts {}, replies {}", prompt, output));
  if (spec.prefix_tokens > 0)
    add(fmt::format("; before them one of {} prefixes of {} tokens", spec.prefix_groups, spec.prefix_tokens));
  return load;
}

bool Load::has_rate() const {
  if (trace_times_) return true;
  return generate_.arrivals.kind != Arrivals::Kind::kClosed && generate_.arrivals.kind != Arrivals::Kind::kAtOnce;
}

int Load::natural_block_size() const {
  if (!trace_times_ || trace_->ids.empty()) return kDefaultBlockSize;
  const double tokens = static_cast<double>(trace_->id_tokens) * spec_.len_scale;
  return static_cast<int>(std::clamp(std::round(tokens), 1.0 * kDefaultBlockSize, 1.0 * trace_->id_tokens));
}

Result<Workload> Load::draw(std::uint64_t seed, std::optional<double> rate) const {
  if (trace_times_) {
    Replay how{spec_.len_scale, spec_.time_scale, spec_.spread, seed};
    if (rate) {
      how.time_scale = 1;
      WEIR_TRY(const Workload natural, replay(*trace_, how));
      const double natural_rate = mean_rate(natural);
      if (natural_rate == 0)
        return fail_at("trace", ErrorCode::kInvalidArgument,
                       "all of the trace's requests come at one time: it has no rate");
      how.time_scale = natural_rate / *rate;
    }
    return replay(*trace_, how);
  }
  GenerateSpec spec = generate_;
  spec.seed = seed;
  if (rate) spec.arrivals.rate = *rate;
  return generate(spec);
}

}  // namespace weir::plan::sim
