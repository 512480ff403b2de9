// machine_peaks_bench [threads]: prints measure_machine().
#include "backend/cpu/machine_peaks.h"

#include <cstdlib>

int main(int argc, char** argv) {
  const auto peaks = weir::backend::cpu::measure_machine(argc > 1 ? std::atoi(argv[1]) : 0);
  if (!peaks) {
    fmt::print(stderr, "{}\n", peaks.error().message);
    return 2;
  }
  fmt::print("{} x{}: read {:.1f} GB/s, int8 {:.0f} (vector {:.0f}), bf16 {:.0f} (vector {:.0f}), f32 {:.0f} GOPS\n",
             weir::backend::cpu::name(peaks->isa), peaks->threads, peaks->read_gb_s, peaks->int8_gops,
             peaks->vector_int8_gops, peaks->bf16_gops, peaks->vector_bf16_gops, peaks->f32_gops);
  return 0;
}
