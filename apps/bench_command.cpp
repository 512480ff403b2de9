// `weir bench throughput`, `weir bench machine` and `weir bench kernels`.
#include <fmt/core.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "api/clock.h"
#include "apps/commands.h"
#include "apps/model_loading.h"
#include "backend/cpu/kernel_speeds.h"
#include "backend/cpu/machine_peaks.h"
#include "base/cpu_info.h"
#include "base/log.h"
#include "base/mailbox.h"
#include "base/printable.h"
#include "base/rng.h"

namespace weir::apps {
namespace {

constexpr std::size_t kWaitingOutputs = 1 << 22;

struct Throughput {
  double prefill_tok_s = 0, decode_tok_s = 0;
};

class Bench {
 public:
  explicit Bench(const BenchOptions& options) : options_(options), outputs_(kWaitingOutputs) {}
  ~Bench() { outputs_.close(); }

  Status load() {
    auto model = options_.model;
    model.engine.enable_prefix_caching = false;
    const bool own_length = model.engine.max_model_len == 0;
    model.engine.max_num_seqs = std::max(model.engine.max_num_seqs, options_.batch);
    // One token more than is counted: the last prompt step already gives the first.
    if (own_length) model.engine.max_model_len = options_.prompt_tokens + options_.output_tokens + 1;
    auto loaded = load_model(model, "", [this](std::vector<engine::SequenceOutput>& step) {
      const double now_s = api::monotonic_s();
      for (auto& output : step) (void)outputs_.put({std::move(output), now_s});
    });
    if (!loaded && own_length && loaded.error().param == "max-model-len") {
      // Nobody gave that option.
      return fail(
          loaded.error().code,
          "--prompt-tokens {} and --output-tokens {} (and one more) are {} tokens, which this model cannot hold "
          "({}); lower one of them",
          options_.prompt_tokens, options_.output_tokens, model.engine.max_model_len, loaded.error().message);
    }
    if (!loaded) return tl::unexpected(loaded.error());
    loaded_ = std::move(*loaded);
    return {};
  }

  const LoadedModel& loaded() const { return loaded_; }

  // Every call gets other prompts.
  Result<Throughput> measure(std::int64_t prompt_tokens, std::int64_t output_tokens, int batch) {
    std::vector<engine::SequenceRequest> requests;
    for (int i = 0; i < batch; ++i) requests.push_back(random_request(prompt_tokens, output_tokens));
    const double start_s = api::monotonic_s();
    WEIR_TRY(const auto ids, loaded_.engine->submit_all(std::move(requests)));
    return collect(start_s, ids, prompt_tokens);
  }

 private:
  struct Timed {
    engine::SequenceOutput output;
    double now_s = 0;
  };

  engine::SequenceRequest random_request(std::int64_t prompt_tokens, std::int64_t output_tokens) {
    const auto& tokenizer = *loaded_.served->tokenizer;
    const auto vocab = static_cast<std::uint32_t>(std::min(loaded_.served->vocab_size, tokenizer.vocab_size()));
    engine::SequenceRequest request;
    while (static_cast<std::int64_t>(request.prompt.size()) < prompt_tokens) {
      const auto id = static_cast<TokenId>(philox(options_.seed, drawn_++)[0] % vocab);
      if (!tokenizer.is_control(id)) request.prompt.push_back(id);
    }
    request.sampling.temperature = 0;
    request.sampling.max_tokens = output_tokens + 1;
    request.sampling.ignore_eos = true;
    return request;
  }

  // The prompts are done when every sequence has its first token. What comes after that is decoding; with prompts that
  // take several steps the first sequences have begun to decode before, and those tokens count for neither.
  Result<Throughput> collect(double start_s, const std::vector<SeqId>& ids, std::int64_t prompt_tokens) {
    std::size_t started = 0, finished = 0;
    std::int64_t decoded = 0;
    double prefill_end_s = start_s, end_s = start_s;
    std::vector<bool> seen(ids.size());
    std::vector<Timed> step;
    while (finished < ids.size()) {
      outputs_.take_all(step, true);
      for (const auto& [output, now_s] : step) {
        const auto at = static_cast<std::size_t>(std::find(ids.begin(), ids.end(), output.id) - ids.begin());
        if (output.finish == engine::FinishReason::kError)
          return fail(ErrorCode::kInternal, "the engine could not go on: {}", output.error);
        end_s = now_s;
        if (!seen[at]) {
          seen[at] = true;
          if (++started == ids.size()) prefill_end_s = now_s;
        } else if (started == ids.size() && now_s > prefill_end_s) {
          decoded += static_cast<std::int64_t>(output.tokens.size());
        }
        if (output.finish) ++finished;
      }
    }
    Throughput out;
    out.prefill_tok_s =
        static_cast<double>(prompt_tokens) * static_cast<double>(ids.size()) / std::max(prefill_end_s - start_s, 1e-9);
    if (end_s > prefill_end_s) out.decode_tok_s = static_cast<double>(decoded) / (end_s - prefill_end_s);
    return out;
  }

  BenchOptions options_;
  Mailbox<Timed> outputs_;
  LoadedModel loaded_;
  std::uint64_t drawn_ = 0;
};

std::int64_t peak_rss_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return std::int64_t{usage.ru_maxrss} * 1024;
}

Status run_throughput(const BenchOptions& options) {
  Bench bench(options);
  WEIR_RETURN_IF_ERROR(bench.load());
  // Touches the weights and wakes the threads, so that the measured run finds them as a running server would.
  WEIR_TRY(auto best, bench.measure(std::min<std::int64_t>(options.prompt_tokens, 16),
                                    std::min<std::int64_t>(options.output_tokens, 2), 1));
  best = {};
  for (int i = 0; i < options.repetitions; ++i) {
    WEIR_TRY(const auto once, bench.measure(options.prompt_tokens, options.output_tokens, options.batch));
    best.prefill_tok_s = std::max(best.prefill_tok_s, once.prefill_tok_s);
    best.decode_tok_s = std::max(best.decode_tok_s, once.decode_tok_s);
  }
  const auto& info = bench.loaded().engine->info();
  if (options.json) {
    fmt::print(
        "{{\"prefill_tok_s\": {:.2f}, \"decode_tok_s\": {:.2f}, \"peak_rss_bytes\": {}, \"load_s\": {:.3f}, "
        "\"prompt_tokens\": {}, "
        "\"output_tokens\": {}, \"batch\": {}}}\n",
        best.prefill_tok_s, best.decode_tok_s, peak_rss_bytes(), info.load_s, options.prompt_tokens,
        options.output_tokens, options.batch);
  } else {
    fmt::print("{}\n{}\n", printable(bench.loaded().served->name), info.backend);
    fmt::print("prefill   {:>10.1f} tokens/s   ({} x {} tokens)\n", best.prefill_tok_s, options.batch,
               options.prompt_tokens);
    fmt::print("decode    {:>10.1f} tokens/s   ({} x {} tokens)\n", best.decode_tok_s, options.batch,
               options.output_tokens);
    fmt::print("peak RSS  {:>10}\nload      {:>10.2f} s\n", human_bytes(static_cast<double>(peak_rss_bytes())),
               info.load_s);
  }
  return {};
}

Result<backend::cpu::MachinePeaks> measured_peaks(const MachineOptions& options) {
  return backend::cpu::measure_machine(options.threads, backend::cpu::parse_isa(options.isa));
}

std::string peaks_json(const backend::cpu::MachinePeaks& peaks) {
  return fmt::format(
      "{{\"cpu\": \"{}\", \"isa\": \"{}\", \"threads\": {}, \"read_gb_s\": {:.2f}, \"int8_gops\": {:.1f}, "
      "\"bf16_gops\": {:.1f}, \"f32_gops\": {:.1f}, \"vector_int8_gops\": {:.1f}, \"vector_bf16_gops\": {:.1f}}}",
      cpu_model_name(), backend::cpu::name(peaks.isa), peaks.threads, peaks.read_gb_s, peaks.int8_gops, peaks.bf16_gops,
      peaks.f32_gops, peaks.vector_int8_gops, peaks.vector_bf16_gops);
}

void print_peaks(const backend::cpu::MachinePeaks& peaks) {
  fmt::print("{}, {}, {} threads\n", cpu_model_name(), backend::cpu::name(peaks.isa), peaks.threads);
  fmt::print(
      "memory read  {:>10.1f} GB/s\nint8         {:>10.1f} Gop/s\nbf16         {:>10.1f} Gop/s\nf32          "
      "{:>10.1f} Gop/s\n",
      peaks.read_gb_s, peaks.int8_gops, peaks.bf16_gops, peaks.f32_gops);
}

void print_json(const backend::cpu::KernelSpeeds& speeds) {
  fmt::print("{{\"machine\": {},\n \"kernels\": [", peaks_json(speeds.machine));
  const char* separator = "";
  for (const auto& k : speeds.kernels) {
    fmt::print(
        "{}\n  {{\"op\": \"{}\", \"type\": \"{}\", \"rows\": {}, \"gb_s\": {:.3f}, \"gops\": {:.3f}, "
        "\"bound\": \"{}\", \"share\": {:.4f}}}",
        separator, k.op, tensor::info(k.type).name, k.rows, k.gb_s(), k.gops(), k.bound, k.share);
    separator = ",";
  }
  fmt::print("\n]}}\n");
}

void print_table(const backend::cpu::KernelSpeeds& speeds) {
  print_peaks(speeds.machine);
  fmt::print("\n{:<24}{:<6}{:>5}{:>10}{:>10}   {:<6}{:>6}\n", "operation", "type", "rows", "GB/s", "Gop/s", "bound",
             "share");
  for (const auto& k : speeds.kernels) {
    fmt::print("{:<24}{:<6}{:>5}{:>10.2f}{:>10.1f}   {:<6}{:>5.0f}%\n", k.op, tensor::info(k.type).name, k.rows,
               k.gb_s(), k.gops(), k.bound, 100 * k.share);
  }
}

}  // namespace

int bench_throughput(const BenchOptions& options) {
  if (const auto status = init_log("warning"); !status) return fail_with(status.error());
  const auto status = run_throughput(options);
  const int exit_status = status ? 0 : fail_with(status.error());
  shutdown_log();
  return exit_status;
}

int bench_machine(const MachineOptions& options) {
  const auto peaks = measured_peaks(options);
  if (!peaks) return fail_with(peaks.error());
  if (options.json) {
    fmt::print("{}\n", peaks_json(*peaks));
  } else {
    print_peaks(*peaks);
  }
  return 0;
}

int bench_kernels(const MachineOptions& machine, const KernelOptions& options) {
  backend::cpu::KernelSpeedOptions speeds_of;
  speeds_of.threads = machine.threads;
  speeds_of.isa = backend::cpu::parse_isa(machine.isa);
  speeds_of.ops = options.ops;
  if (!options.rows.empty()) speeds_of.rows = options.rows;
  for (const std::string& name : options.types) {
    const auto type = tensor::parse_dtype(name);
    if (!type) return fail_with({ErrorCode::kInvalidArgument, "--types: there is no type '" + name + "'", "types"});
    speeds_of.types.push_back(*type);
  }
  const bool terminal = isatty(STDERR_FILENO) != 0;
  const auto speeds = backend::cpu::measure_kernels(speeds_of, [&](std::string_view op, tensor::DType type) {
    if (terminal) fmt::print(stderr, "\r{:<23}{:<6}", op, tensor::info(type).name);
  });
  if (terminal) fmt::print(stderr, "\r{:29}\r", "");
  if (!speeds) return fail_with(speeds.error());
  if (machine.json) {
    print_json(*speeds);
  } else {
    print_table(*speeds);
  }
  return 0;
}

}  // namespace weir::apps
