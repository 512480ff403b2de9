#include "plan/subject.h"

#include <array>
#include <cmath>

namespace weir::plan {
namespace {

struct KvType {
  const char* name;
  double bits;
};
constexpr std::array kKvTypes = {KvType{"auto", 16}, KvType{"bf16", 16}, KvType{"f16", 16}, KvType{"fp16", 16},
                                 KvType{"fp8", 8},   KvType{"int8", 8},  KvType{"f32", 32}, KvType{"nvfp4", 4.5}};

std::string scaled(double value, double step, const std::array<const char*, 6>& units) {
  std::size_t unit = 0;
  while (std::abs(value) >= step && unit + 1 < units.size()) {
    value /= step;
    ++unit;
  }
  return fmt::format("{:.{}f} {}", value, unit == 0 ? 0 : std::abs(value) < 10 ? 2 : 1, units[unit]);
}

}  // namespace

Result<double> parse_kv_bits(const std::string& name) {
  std::string all;
  for (const KvType& type : kKvTypes) {
    if (name == type.name) return type.bits;
    all += (all.empty() ? "" : ", ") + std::string(type.name);
  }
  return fail(ErrorCode::kInvalidArgument, "\"{}\" is no type of KV; known: {}", name.substr(0, 40), all);
}

Result<Subject> read_subject(const SubjectQuery& query) {
  Subject subject;
  subject.layout = query.layout;
  WEIR_TRY(subject.kv_bits, parse_kv_bits(query.kv));
  subject.kv_name = query.kv == "auto" ? "bf16" : query.kv;
  if (!query.hardware.empty()) {
    WEIR_TRY(subject.hardware, find_hardware(query.hardware));
  }
  WEIR_TRY(subject.card, read_model_card(query.model));
  subject.types = subject.card.types;
  if (!query.weights.empty()) {
    WEIR_TRY(subject.types, parse_weight_types(query.weights));
  }
  return subject;
}

std::string decimal_bytes(double bytes) {
  return scaled(bytes, 1000, {"bytes", "kB", "MB", "GB", "TB", "PB"});
}

std::string binary_bytes(double bytes) {
  return scaled(bytes, 1024, {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB"});
}

std::string grouped(double number) {
  std::string digits = fmt::format("{:.0f}", number);
  for (int at = static_cast<int>(digits.size()) - 3; at > (digits.starts_with("-") ? 1 : 0); at -= 3)
    digits.insert(static_cast<std::size_t>(at), ",");
  return digits;
}

std::string seconds_text(double seconds) {
  if (seconds >= 1) return fmt::format("{:.2f} s", seconds);
  if (seconds >= 1e-3) return fmt::format("{:.1f} ms", seconds * 1e3);
  return fmt::format("{:.1f} us", seconds * 1e6);
}

}  // namespace weir::plan
