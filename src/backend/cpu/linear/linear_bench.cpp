// linear_bench [--threads N] [--isa NAME] [--types Q4_0,Q8_0] [--rows 2048] [--cols 2048] [--mb 512] [--seconds 0.4]
// [--tokens 1,16,512] Time of one linear layer by weight type and number of rows, over as many copies of the matrix as
// make --mb megabytes, so that weights come from memory as in a model. Prints the best time of several, weight bytes
// per second and multiply-adds counted as two operations.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "backend/cpu/cpu_backend.h"

namespace weir::backend::cpu {
namespace {

struct Options {
  int threads = 0;
  std::optional<Isa> isa;
  std::string types = "Q4_0,Q4_1,Q5_0,Q5_1,Q8_0,Q4_K,Q5_K,Q6_K,BF16,F16,F32";
  std::int64_t rows = 2048, cols = 2048, megabytes = 512;
  double seconds = 0.4;  // per figure
  std::vector<std::int64_t> tokens = {1, 2, 4, 8, 16, 32, 64, 256, 512};
};

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> parts(1);
  for (const char c : list) {
    if (c == ',') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

// With one thread, its CPU time: what others run on the machine hardly shows then.
double seconds_now(bool cpu_time = false) {
  timespec t;
  clock_gettime(cpu_time ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

void bench_type(Backend& backend, DType type, const Options& options) {
  const std::int64_t bytes = options.rows * tensor::row_bytes(type, options.cols);
  std::mt19937 rng(1);
  std::vector<std::byte> data(static_cast<std::size_t>(bytes));
  for (std::size_t i = 0; i < data.size(); ++i) {  // any codes; as scales and floats: finite, normal and small
    data[i] = static_cast<std::byte>(i % 2 == 0 ? rng() : 0x20 | (rng() & 0x1b));
  }
  const auto copies = std::max<std::int64_t>(1, options.megabytes * 1000000 / bytes);
  std::vector<std::unique_ptr<LinearWeight>> weights;
  const double start = seconds_now(options.threads == 1);
  for (std::int64_t i = 0; i < copies; ++i) weights.push_back(backend.pack(type, options.rows, options.cols, data));
  const double pack_gb_s = static_cast<double>(copies * bytes) / (seconds_now(options.threads == 1) - start) * 1e-9;
  fmt::print("{:5} pack {:5.2f} GB/s |", tensor::info(type).name, pack_gb_s);
  for (const std::int64_t m : options.tokens) {
    std::vector<float> x(static_cast<std::size_t>(m * options.cols), 0.5f),
        y(static_cast<std::size_t>(m * options.rows));
    double best = 1e30, spent = 0;
    std::size_t next = 0;
    for (int repeat = 0; repeat < 1000 && (repeat < 5 || spent < options.seconds); ++repeat) {
      const double begin = seconds_now(options.threads == 1);
      const int calls = m == 1 ? 8 : 1;
      for (int c = 0; c < calls; ++c) {
        const LinearOutput output = {weights[next].get(), nullptr, {y.data(), m, options.rows}, false};
        next = (next + 1) % weights.size();
        backend.linear({{x.data(), m, options.cols}, nullptr, 0, {&output, 1}});
      }
      const double elapsed = seconds_now(options.threads == 1) - begin;
      spent += elapsed;
      best = std::min(best, elapsed / calls);
    }
    fmt::print("  {}: {:.0f}us {:.1f}GB/s {:.0f}GOPS", m, best * 1e6,
               static_cast<double>(weights[0]->bytes()) / best * 1e-9,
               2e-9 * static_cast<double>(m * options.rows * options.cols) / best);
    std::fflush(stdout);
  }
  fmt::print("\n");
}

int run(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view flag = argv[i];
    const std::string value = argv[i + 1];
    if (flag == "--threads") options.threads = std::atoi(value.c_str());
    if (flag == "--isa") options.isa = parse_isa(value);
    if (flag == "--types") options.types = value;
    if (flag == "--rows") options.rows = std::atoll(value.c_str());
    if (flag == "--cols") options.cols = std::atoll(value.c_str());
    if (flag == "--seconds") options.seconds = std::atof(value.c_str());
    if (flag == "--mb") options.megabytes = std::atoll(value.c_str());
    if (flag == "--tokens") {
      options.tokens.clear();
      for (const std::string& m : split(value)) options.tokens.push_back(std::max(1, std::atoi(m.c_str())));
    }
  }
  auto backend = make_cpu_backend({.threads = options.threads, .isa = options.isa, .compute = Compute::kAuto});
  if (!backend) {
    fmt::print(stderr, "{}\n", backend.error().message);
    return 2;
  }
  fmt::print("{}, {} x {}\n", (*backend)->describe(), options.rows, options.cols);
  for (const std::string& type : split(options.types)) {
    const auto dtype = tensor::parse_dtype(type);
    if (dtype) bench_type(**backend, *dtype, options);
  }
  return 0;
}

}  // namespace
}  // namespace weir::backend::cpu

int main(int argc, char** argv) {
  return weir::backend::cpu::run(argc, argv);
}
