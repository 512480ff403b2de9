#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>

#include "backend/cpu/cpu_backend.h"
#include "base/cpu_info.h"

namespace weir::backend::cpu {
namespace {

constexpr std::array<std::string_view, 6> kNames = {"scalar", "avx2", "avx2-vnni", "avx512", "avx512-vnni", "amx"};

// State the OS saves on a context switch, by bit of XCR0; an instruction whose registers are not saved must not be
// used.
constexpr std::uint64_t kYmmState = 0x6;       // SSE and the upper halves of ymm
constexpr std::uint64_t kZmmState = 0xe6;      // + opmask, upper halves of zmm0-15, zmm16-31
constexpr std::uint64_t kTileState = 0x60000;  // AMX configuration and data

std::uint64_t read_xcr0() {
  std::uint32_t low, high;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (std::uint64_t{high} << 32) | low;
}

// Linux hands out the 8 KiB of tile state only to processes that ask (arch_prctl, since 5.16).
bool request_tiles() {
  constexpr long kArchReqXcompPerm = 0x1023;
  constexpr long kXfeatureTileData = 18;
  return syscall(SYS_arch_prctl, kArchReqXcompPerm, kXfeatureTileData) == 0;
}

struct Features {
  bool avx2 = false, avx2_vnni = false, avx512 = false, avx512_vnni = false, amx = false;
};

bool bit(std::uint32_t word, int index) {
  return (word >> index) & 1;
}

Features detect() {
  Features f;
  std::uint32_t a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return f;
  const bool osxsave = bit(c, 27), avx = bit(c, 28), fma = bit(c, 12), f16c = bit(c, 29);
  if (!osxsave || !avx) return f;
  const std::uint64_t xcr0 = read_xcr0();
  if ((xcr0 & kYmmState) != kYmmState || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return f;
  const std::uint32_t subleaves = a, b7 = b, c7 = c, d7 = d;
  std::uint32_t a71 = 0;
  if (subleaves >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d)) a71 = a;
  f.avx2 = bit(b7, 5) && fma && f16c;
  f.avx2_vnni = f.avx2 && bit(a71, 4);
  f.avx512 = f.avx2 && (xcr0 & kZmmState) == kZmmState && bit(b7, 16) && bit(b7, 17) && bit(b7, 30) && bit(b7, 31);
  f.avx512_vnni = f.avx512 && bit(c7, 11) && bit(a71, 5);
  f.amx = f.avx512_vnni && (xcr0 & kTileState) == kTileState && bit(d7, 22) && bit(d7, 24) && bit(d7, 25) &&
          request_tiles();
  return f;
}

}  // namespace

std::string_view name(Isa isa) {
  return kNames[static_cast<std::size_t>(isa)];
}

std::optional<Isa> parse_isa(std::string_view text) {
  const auto equal_but_for_hyphen = [text](std::string_view name) {
    const std::size_t hyphen = std::min(name.find('-'), name.size());
    return text == name || (text.substr(0, hyphen) == name.substr(0, hyphen) && hyphen < name.size() &&
                            text.substr(hyphen) == name.substr(hyphen + 1));
  };
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (equal_but_for_hyphen(kNames[i])) return static_cast<Isa>(i);
  }
  return std::nullopt;
}

bool supported(Isa isa) {
  static const Features features = detect();
  switch (isa) {
    case Isa::kScalar:
      return true;
    case Isa::kAvx2:
      return features.avx2;
    case Isa::kAvx2Vnni:
      return features.avx2_vnni;
    case Isa::kAvx512:
      return features.avx512;
    case Isa::kAvx512Vnni:
      return features.avx512_vnni;
    case Isa::kAmx:
      return features.amx;
  }
  return false;
}

Isa best_isa() {
  Isa best = Isa::kScalar;
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (supported(static_cast<Isa>(i))) best = static_cast<Isa>(i);
  }
  return best;
}

Result<Isa> choose_isa(std::optional<Isa> asked) {
  const char* variable = std::getenv("WEIR_ISA");
  if (!asked && variable != nullptr && *variable != '\0') {
    asked = parse_isa(variable);
    if (!asked) {
      return fail_at("WEIR_ISA", ErrorCode::kInvalidArgument, "WEIR_ISA={} names no kernel level; use {}", variable,
                     kIsaNames);
    }
  }
  if (!asked) return best_isa();
  if (!supported(*asked)) {
    return fail(ErrorCode::kInvalidArgument, "kernels for {} were asked for, but this machine ({}) runs at most {}",
                name(*asked), cpu_model_name(), name(best_isa()));
  }
  return *asked;
}

}  // namespace weir::backend::cpu
