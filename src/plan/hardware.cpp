#include "plan/hardware.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <string_view>

#include "base/check.h"
#include "base/printable.h"
#include "plan/csv.h"
#include "plan/data.h"

namespace weir::plan {
namespace {

constexpr std::size_t kMaxText = 1000;
constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;
constexpr std::string_view kDomain = "domain";  // a whole number; the one field that is none of a device

// What can be given by hand. Columns of hardware.csv have the same names. `least` 0: a device may lack it.
struct Field {
  std::string_view name;
  double Hardware::* member;
  double factor = 1;
  double least = 0, most = 1e6;  // a thousand times the most that is built, of any of them
};

constexpr std::array kFields = {
    Field{"bf16_dense_tflops", &Hardware::bf16_tflops, 1, 1e-3},
    Field{"fp8_dense_tflops", &Hardware::fp8_tflops},
    Field{"int8_dense_tops", &Hardware::int8_tops},
    Field{"fp4_dense_tflops", &Hardware::fp4_tflops},
    Field{"mem_gib", &Hardware::memory_bytes, kGiB, 1e-2},
    Field{"mem_gb", &Hardware::memory_bytes, 1e9, 1e-2},
    Field{"mem_bw_gbs", &Hardware::bandwidth_gbs, 1, 1e-1},
    Field{"link_gbs_per_dir", &Hardware::link_gbs},
    Field{"nic_gbit_per_device", &Hardware::nic_gbit},
    Field{"pcie_gbs_per_dir", &Hardware::pcie_gbs},
    Field{"tdp_w", &Hardware::tdp_w},
    Field{"price_per_hour", &Hardware::price_per_hour},
};

std::string field_names() {
  std::string names(kDomain);
  for (const Field& field : kFields) names += ", " + std::string(field.name);
  return names;
}

struct Row {
  Hardware hardware;
  std::vector<std::string> keys;
};

// Lower-case letters and digits, without a vendor's words.
std::string key_of(std::string_view text) {
  std::string key;
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) || c == '+')
      key += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  for (const std::string_view vendor : {"nvidia", "amd", "intel", "google", "geforce"}) {
    if (key.starts_with(vendor)) key.erase(0, vendor.size());
  }
  if (key.ends_with("+")) key.pop_back();
  return key;
}

std::vector<std::string> keys_of(std::string_view name, std::string_view aliases) {
  std::vector<std::string> keys = {key_of(name)};
  while (!aliases.empty()) {
    const auto end = std::min(aliases.find(' '), aliases.size());
    keys.push_back(key_of(aliases.substr(0, end)));
    aliases.remove_prefix(std::min(end + 1, aliases.size()));
  }
  return keys;
}

Result<std::vector<Row>> read_table() {
  WEIR_TRY(const auto csv, Csv::parse(data_file("hardware.csv"), "hardware.csv"));
  std::vector<Row> rows;
  for (std::size_t i = 0; i < csv.rows(); ++i) {
    Row row;
    Hardware& hardware = row.hardware;
    hardware.name = csv.at(i, "name");
    hardware.kind = csv.at(i, "kind");
    hardware.link = csv.at(i, "link_name");
    hardware.source = csv.at(i, "source");
    for (const Field& field : kFields) {
      if (!csv.has(field.name)) continue;
      WEIR_TRY(const double value, csv.number(i, field.name, 0));
      hardware.*field.member = value * field.factor;
    }
    WEIR_TRY(const double domain, csv.number(i, "domain", 8));
    hardware.domain = static_cast<int>(domain);
    row.keys = keys_of(hardware.name, csv.at(i, "aliases"));
    rows.push_back(std::move(row));
  }
  return rows;
}

const std::vector<Row>& table() {
  static const std::vector<Row> rows = [] {
    auto read = read_table();
    CHECK(read.has_value(), "{}", read.error().message);
    return *std::move(read);
  }();
  return rows;
}

const Row* find_row(std::string_view name) {
  const std::string key = key_of(name);
  for (const Row& row : table()) {
    if (std::ranges::find(row.keys, key) != row.keys.end()) return &row;
  }
  // "h100_sxm5_80gb": the longest name that it begins with.
  const Row* best = nullptr;
  std::size_t length = 2;
  for (const Row& row : table()) {
    for (const std::string& known : row.keys) {
      if (known.size() > length && key.starts_with(known)) {
        best = &row;
        length = known.size();
      }
    }
  }
  // What follows may say a form or a size, and no other product ("B200" is no "B20").
  if (best == nullptr) return nullptr;
  const std::string rest = key.substr(length);
  for (const std::string_view more :
       {"sxm",    "sxm4", "sxm5", "4",        "5",         "80gb",  "40gb",       "141gb", "480gb", "580gb",
        "5141gb", "80g",  "hbm3", "80gbhbm3", "580gbhbm3", "hbm3e", "141gbhbm3e", "oam",   "nvl72", "gpu"}) {
    if (rest == more) return best;
  }
  return nullptr;
}

Status set_field(std::string_view text, Hardware& hardware, std::set<std::string_view>& given) {
  const auto equals = text.find('=');
  if (equals == std::string_view::npos) {
    return fail(ErrorCode::kInvalidArgument, "hardware \"{}\": \"{}\" is no field=value; fields: {}", hardware.name,
                std::string(text.substr(0, 60)), field_names());
  }
  const std::string_view name = text.substr(0, equals);
  const auto* field = std::ranges::find(kFields, name, &Field::name);
  if (field == kFields.end() && name != kDomain) {
    return fail(ErrorCode::kInvalidArgument, "hardware has no field \"{}\"; fields: {}",
                std::string(name.substr(0, 60)), field_names());
  }
  const bool whole = name == kDomain;
  const double least = whole ? 1 : field->least, most = whole ? 1e6 : field->most;
  const auto parsed = parse_number(text.substr(equals + 1), fmt::format("hardware, {}", name));
  if (!parsed || !(*parsed >= least && *parsed <= most) || (whole && *parsed != std::floor(*parsed))) {
    return fail(ErrorCode::kInvalidArgument, "hardware: {} is \"{}\"; a {}number from {:g} to {:g} expected", name,
                std::string(text.substr(equals + 1, 60)), whole ? "whole " : "", least, most);
  }
  if (whole) {
    hardware.domain = static_cast<int>(*parsed);
    return {};
  }
  hardware.*field->member = *parsed * field->factor;
  given.insert(field->name.starts_with("mem_g") ? "mem_gb" : field->name);
  return {};
}

tl::unexpected<Error> unknown(std::string_view name) {
  std::string names;
  for (const Row& row : table()) names += (names.empty() ? "" : ", ") + row.hardware.name;
  return fail(ErrorCode::kNotFound,
              "hardware \"{}\" is not known. Known: {}. By hand: name,field=value,... with the fields {} (needed: "
              "bf16_dense_tflops, mem_gb or mem_gib, mem_bw_gbs)",
              std::string(name.substr(0, 100)), names, field_names());
}

}  // namespace

double Hardware::peak_tflops(double operand_bits, bool integer) const {
  if (operand_bits > 16) return bf16_tflops / 2;  // TF32 and FP32 sums: half as many lanes, at best
  if (operand_bits > 8) return bf16_tflops;
  // Where the narrow type's own rate is the lower one (INT8 on a B300), engines widen too.
  return std::max(bf16_tflops, integer ? int8_tops : operand_bits > 5 ? fp8_tflops : fp4_tflops);
}

Result<Hardware> find_hardware(const std::string& text) {
  if (text.size() > kMaxText)
    return fail(ErrorCode::kInvalidArgument, "a description of hardware of {} bytes; at most {}", text.size(),
                kMaxText);
  const auto comma = std::min(text.find(','), text.size());
  const std::string name = text.substr(0, comma);
  const Row* row = find_row(name);
  Hardware hardware;
  if (row != nullptr) {
    hardware = row->hardware;
  } else {
    hardware.name = printable(name);
    hardware.kind = "gpu";
    hardware.source = "given by hand";
  }
  std::set<std::string_view> given;
  for (std::size_t at = comma + 1; at <= text.size();) {
    const auto end = std::min(text.find(',', at), text.size());
    WEIR_RETURN_IF_ERROR(set_field(std::string_view(text).substr(at, end - at), hardware, given));
    at = end + 1;
  }
  if (row == nullptr && given.empty()) return unknown(name);
  if (row != nullptr && !given.empty()) hardware.source += "; changed by hand";
  for (const auto& [value, field] :
       {std::pair{hardware.bf16_tflops, "bf16_dense_tflops"}, std::pair{hardware.memory_bytes, "mem_gb"},
        std::pair{hardware.bandwidth_gbs, "mem_bw_gbs"}}) {
    if (value <= 0) {
      return fail(ErrorCode::kInvalidArgument, "hardware \"{}\": {} is needed, above 0", hardware.name.substr(0, 100),
                  field);
    }
  }
  return hardware;
}

const std::vector<Hardware>& known_hardware() {
  static const std::vector<Hardware> all = [] {
    std::vector<Hardware> list;
    for (const Row& row : table()) list.push_back(row.hardware);
    return list;
  }();
  return all;
}

}  // namespace weir::plan
