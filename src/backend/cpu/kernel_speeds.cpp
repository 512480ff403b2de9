#include "backend/cpu/kernel_speeds.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <new>
#include <numeric>
#include <tuple>
#include <utility>

#include "base/rng.h"

namespace weir::backend::cpu {
namespace {

// One matrix of a feed-forward layer of a model of a billion parameters.
constexpr std::int64_t kOutputs = 8192, kInputs = 2048;
// Its attention.
constexpr int kHeads = 32, kKvHeads = 8, kHeadDim = 64, kBlockTokens = 16;
constexpr std::int64_t kWidth = kHeads * kHeadDim;

struct HeadShape {
  int heads = kHeads, kv_heads = kKvHeads, key_dim = kHeadDim, value_dim = kHeadDim;
  bool values_in_keys = false;

  std::int64_t width() const { return std::int64_t{heads} * key_dim; }
  std::int64_t out_width() const { return std::int64_t{heads} * value_dim; }
  std::int64_t stored_width() const { return std::int64_t{kv_heads} * (key_dim + (values_in_keys ? 0 : value_dim)); }
};
// DeepSeek's, with its projections absorbed.
constexpr HeadShape kLatent = {.heads = 128, .kv_heads = 1, .key_dim = 576, .value_dim = 512, .values_in_keys = true};
constexpr std::int64_t kPositions = 8192;

constexpr std::array kWeightTypes = {DType::kF32,    DType::kF16,   DType::kBF16, DType::kQ8_0,   DType::kQ4_0,
                                     DType::kQ4_1,   DType::kQ5_0,  DType::kQ5_1, DType::kQ4_K,   DType::kQ5_K,
                                     DType::kQ6_K,   DType::kQ2_K,  DType::kQ3_K, DType::kIQ4_NL, DType::kIQ4_XS,
                                     DType::kIQ2_XS, DType::kMXFP4, DType::kTQ2_0};
constexpr std::array kKvTypes = {DType::kF32, DType::kF16, DType::kBF16};

constexpr std::array<std::string_view, 9> kOps = {"linear",
                                                  "gated_linear",
                                                  "attention_decode_512",
                                                  "attention_decode_8192",
                                                  "attention_decode_mla",
                                                  "attention_prefill_512",
                                                  "attention_prefill_8192",
                                                  "rms_norm",
                                                  "head_norm_rope"};

// What the calls of one figure take turns over, so that nothing is left in a cache from the turn before.
std::int64_t streamed_bytes() {
  const std::int64_t cache = std::max(0L, sysconf(_SC_LEVEL3_CACHE_SIZE));
  return std::clamp(2 * cache, std::int64_t{256} << 20, std::int64_t{1} << 30);
}

// Whether `name` asks for `op`: as it is, or as the words it begins with.
bool covers(std::string_view name, std::string_view op) {
  return op.starts_with(name) && (op.size() == name.size() || op[name.size()] == '_');
}

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Seconds of one call: the median of tries long enough for the clock, fewer of them where a call takes long.
double median_s(const std::function<void()>& call) {
  constexpr double kTry_s = 0.006, kEnough_s = 0.06, kTooLong_s = 0.6;
  constexpr std::size_t kFewest = 3, kMost = 9;
  double start = now_s();
  call();  // scratch grows, pages are touched
  const double first_s = now_s() - start;
  const auto calls = static_cast<int>(std::clamp(kTry_s / std::max(first_s, 1e-7), 1.0, 1e5));
  std::vector<double> tries;
  for (double spent_s = 0; tries.size() < kMost && spent_s < kTooLong_s;) {
    if (tries.size() >= kFewest && spent_s >= kEnough_s) break;
    start = now_s();
    for (int i = 0; i < calls; ++i) call();
    const double elapsed_s = now_s() - start;
    spent_s += elapsed_s;
    tries.push_back(elapsed_s / calls);
  }
  std::nth_element(tries.begin(), tries.begin() + static_cast<std::ptrdiff_t>(tries.size() / 2), tries.end());
  return tries[tries.size() / 2];
}

// Any codes; as scales and floats: finite, normal and small.
std::vector<std::byte> sane_bytes(std::int64_t count) {
  std::vector<std::byte> data(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < data.size(); ++i) {
    const std::uint32_t random = philox(1, i / 4)[i % 4];
    data[i] = static_cast<std::byte>(i % 2 == 0 ? random : 0x20 | (random & 0x1b));
  }
  return data;
}

class Measurement {
 public:
  Measurement(Backend& backend, const KernelSpeedOptions& options,
              const std::function<void(std::string_view, DType)>& progress)
      : backend_(backend), options_(options), progress_(progress) {}

  std::vector<KernelSpeed> run() {
    for (const DType type : kWeightTypes) {
      if (asked(type) && (asked("linear") || asked("gated_linear"))) layers(type);
    }
    const std::unique_ptr<Buffer> memory = filled_memory();
    for (const DType type : kKvTypes) {
      if (asked(type)) attention(type, *memory);
    }
    if (asked(DType::kF32)) row_operations(*memory);
    return std::move(speeds_);
  }

 private:
  bool asked(std::string_view op) const {
    return options_.ops.empty() || std::any_of(options_.ops.begin(), options_.ops.end(),
                                               [op](const std::string& name) { return covers(name, op); });
  }
  bool asked(DType type) const {
    return options_.types.empty() ||
           std::find(options_.types.begin(), options_.types.end(), type) != options_.types.end();
  }

  void measure(std::string_view op, DType type, std::int64_t rows, double bytes, double operations,
               const std::function<void()>& call) {
    if (speeds_.empty() || speeds_.back().op != op || speeds_.back().type != type) progress_(op, type);
    speeds_.push_back({.op = op, .type = type, .rows = rows, .bytes = bytes, .operations = operations});
    speeds_.back().seconds = median_s(call);
  }

  void layers(DType type) {
    std::vector<std::unique_ptr<LinearWeight>> weights;
    const std::vector<std::byte> data = sane_bytes(kOutputs * tensor::row_bytes(type, kInputs));
    for (std::int64_t bytes = 0; bytes < streamed_bytes() || weights.size() < 2;) {
      weights.push_back(backend_.pack(type, kOutputs, kInputs, data));
      bytes += static_cast<std::int64_t>(weights.back()->bytes());
    }
    const auto bytes = static_cast<double>(weights[0]->bytes());
    std::size_t turn = 0;
    const auto next = [&] { return weights[turn++ % weights.size()].get(); };
    for (const std::int64_t rows : options_.rows) {
      std::vector<float> x(static_cast<std::size_t>(rows * kInputs), 0.5f),
          y(static_cast<std::size_t>(rows * kOutputs));
      const double operations = 2.0 * static_cast<double>(rows * kOutputs * kInputs);
      if (asked("linear")) {
        measure("linear", type, rows, bytes, operations, [&] {
          const LinearOutput output = {next(), nullptr, {y.data(), rows, kOutputs}, false};
          backend_.linear({{x.data(), rows, kInputs}, nullptr, 0, {&output, 1}});
        });
      }
      if (asked("gated_linear")) {
        measure("gated_linear", type, rows, 2 * bytes, 2 * operations, [&] {
          GatedLinearCall call;
          call.x = {x.data(), rows, kInputs};
          call.gate = next();
          call.up = next();
          call.y = {y.data(), rows, kOutputs};
          backend_.gated_linear(call);
        });
      }
    }
  }

  // Keys and values, or rows, of any type.
  std::unique_ptr<Buffer> filled_memory() {
    auto memory = backend_.allocate(static_cast<std::size_t>(streamed_bytes()));
    const std::vector<std::byte> pattern = sane_bytes(1 << 20);
    for (std::size_t at = 0; at < memory->size(); at += pattern.size())
      std::copy_n(pattern.begin(), std::min(pattern.size(), memory->size() - at), memory->data() + at);
    return memory;
  }

  void attention(DType type, const Buffer& arena) {
    for (const auto& [decode, prefill, context] :
         {std::tuple{"attention_decode_512", "attention_prefill_512", 512},
          std::tuple{"attention_decode_8192", "attention_prefill_8192", 8192}}) {
      for (const std::int64_t rows : options_.rows) {
        if (asked(decode)) attend(decode, type, arena, {}, rows, 1, context);
      }
      for (const std::int64_t rows : options_.rows) {
        if (asked(prefill) && rows <= context) attend(prefill, type, arena, {}, 1, rows, context);
      }
    }
    constexpr std::string_view kMla = "attention_decode_mla";
    for (const std::int64_t rows : options_.rows) {
      if (asked(kMla)) attend(kMla, type, arena, kLatent, rows, 1, 512);
    }
  }

  // Attention of `sequences` sequences of `context` tokens each, their last `queries` computed. Blocks are scattered
  // over the arena, which is used round and round.
  void attend(std::string_view op, DType type, const Buffer& arena, const HeadShape& shape, std::int64_t sequences,
              std::int64_t queries, int context) {
    const std::int64_t block_bytes = kBlockTokens * tensor::row_bytes(type, shape.stored_width());
    const std::int64_t blocks = static_cast<std::int64_t>(arena.size()) / block_bytes;
    const std::int64_t per_sequence = (context + kBlockTokens - 1) / kBlockTokens, per_call = sequences * per_sequence;
    std::vector<std::int32_t> order(static_cast<std::size_t>(blocks));
    std::iota(order.begin(), order.end(), 0);
    for (std::size_t i = order.size() - 1; i > 0; --i)
      std::swap(order[i], order[static_cast<std::size_t>(uniform(1, i) * static_cast<double>(i + 1))]);
    std::vector<std::int32_t> tables(static_cast<std::size_t>(blocks + per_call)), starts, lengths;
    for (std::size_t i = 0; i < tables.size(); ++i) tables[i] = order[i % order.size()];
    for (std::int64_t s = 0; s <= sequences; ++s) starts.push_back(static_cast<std::int32_t>(s * queries));
    lengths.assign(static_cast<std::size_t>(sequences), context);
    const std::int64_t rows = sequences * queries;
    std::vector<float> q(static_cast<std::size_t>(rows * shape.width()), 0.5f),
        out(static_cast<std::size_t>(rows * shape.out_width()));
    AttentionCall call;
    call.q = {q.data(), rows, shape.width()};
    call.kv = {arena.data(),  block_bytes, kBlockTokens,    shape.kv_heads,
               shape.key_dim, type,        shape.value_dim, shape.values_in_keys};
    call.heads = shape.heads;
    call.query_starts = starts;
    call.seq_lens = lengths;
    call.scale = 0.125f;
    call.out = {out.data(), rows, shape.out_width()};
    const double seen = static_cast<double>(queries) * (context - static_cast<double>(queries - 1) / 2);
    std::int64_t turn = 0;
    measure(op, type, rows, static_cast<double>(per_call * block_bytes),
            2.0 * static_cast<double>(sequences * (shape.width() + shape.out_width())) * seen, [&] {
              call.block_tables = {tables.data() + turn, sequences, per_sequence};
              turn = (turn + per_call) % blocks;
              backend_.attention(call);
            });
  }

  void row_operations(const Buffer& memory) {
    auto* values = reinterpret_cast<float*>(memory.data());
    const std::vector<float> ones(static_cast<std::size_t>(std::max(kWidth, kPositions * kHeadDim / 2)), 1.0f);
    const RopeTable rope = {ones.data(), ones.data(), kPositions, kHeadDim, false};
    for (const std::int64_t rows : options_.rows) {
      const auto parts = static_cast<std::int64_t>(memory.size() / sizeof(float)) / (rows * kWidth);
      if (parts < 2) continue;
      std::int64_t turn = 0;
      const auto next = [&] { return Matrix<float>(values + turn++ % parts * rows * kWidth, rows, kWidth); };
      const auto elements = static_cast<double>(rows * kWidth);
      std::vector<std::int32_t> positions(static_cast<std::size_t>(rows));
      for (std::size_t i = 0; i < positions.size(); ++i) positions[i] = static_cast<std::int32_t>(i % kPositions);
      if (asked("rms_norm")) {
        measure("rms_norm", DType::kF32, rows, 8 * elements, 4 * elements, [&] {
          const Matrix<float> x = next();
          backend_.rms_norm(x, ones.data(), 1e-5f, x, false);
        });
      }
      if (asked("head_norm_rope")) {
        measure("head_norm_rope", DType::kF32, rows, 8 * elements, 7 * elements,
                [&] { backend_.head_norm_rope({next(), kHeadDim, ones.data(), 0, 1e-5f, &rope, 0, positions}); });
      }
    }
  }

  Backend& backend_;
  const KernelSpeedOptions& options_;
  const std::function<void(std::string_view, DType)>& progress_;
  std::vector<KernelSpeed> speeds_;
};

void set_bound(const MachinePeaks& machine, KernelSpeed* speed) {
  double peak = machine.f32_gops;
  std::string_view arithmetic = "f32";
  const bool weights = speed->op == "linear" || speed->op == "gated_linear";
  if (weights && tensor::is_quantised(speed->type)) {
    peak = machine.int8_gops;
    arithmetic = "int8";
  } else if (weights && speed->type == DType::kBF16 && machine.bf16_gops > peak) {
    peak = machine.bf16_gops;
    arithmetic = "bf16";
  }
  const double read_s = speed->bytes * 1e-9 / machine.read_gb_s, compute_s = speed->operations * 1e-9 / peak;
  speed->bound = read_s >= compute_s ? "read" : arithmetic;
  speed->share = std::max(read_s, compute_s) / speed->seconds;
}

}  // namespace

std::span<const std::string_view> measured_ops() {
  return kOps;
}

Result<KernelSpeeds> measure_kernels(const KernelSpeedOptions& options,
                                     const std::function<void(std::string_view op, DType type)>& progress) try {
  for (const std::string& name : options.ops) {
    const bool known = std::any_of(kOps.begin(), kOps.end(), [&](std::string_view op) { return covers(name, op); });
    if (!known) {
      return fail_at("ops", ErrorCode::kInvalidArgument, "there is no operation '{}' to measure; there are {}", name,
                     fmt::join(kOps, ", "));
    }
  }
  KernelSpeeds speeds;
  WEIR_TRY(speeds.machine, measure_machine(options.threads, options.isa));
  WEIR_TRY(const auto backend,
           make_cpu_backend({.threads = options.threads, .isa = options.isa, .compute = Compute::kAuto}));
  speeds.kernels = Measurement(*backend, options, progress).run();
  WEIR_TRY(const MachinePeaks after, measure_machine(options.threads, options.isa));
  speeds.machine.take_better(after);
  for (KernelSpeed& speed : speeds.kernels) set_bound(speeds.machine, &speed);
  return speeds;
} catch (const std::bad_alloc&) {
  return fail(ErrorCode::kInvalidArgument, "there is not enough memory to measure kernels; fewer rows need less");
}

}  // namespace weir::backend::cpu
