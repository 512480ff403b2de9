#include "plan/silicon/validate_ops.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <vector>

#include "base/check.h"
#include "plan/csv.h"
#include "plan/data.h"
#include "plan/hardware.h"
#include "plan/silicon/collective_path.h"
#include "plan/silicon/hierarchy.h"
#include "plan/silicon/neighbours.h"
#include "plan/silicon/validate_silicon.h"

namespace weir::plan {
namespace {

constexpr double kTargetPercent = 12, kHeadDim = 128, kGroupScale = 1;

struct OpRow {
  std::string system;
  std::vector<std::string> groups;  // what shares coefficients, one per level of the table
  std::string block;                // of rows whose residuals are near each other
  std::string shape, column;        // held out as wholes: the matrices or heads; the rows, contexts or sizes
  std::vector<double> terms, at;
  double log_y = 0;
};

struct OpTable {
  std::string name, shapes, columns;  // what shape and column are
  std::vector<double> start, scales;  // of the terms; of every level's deviations
  std::vector<OpRow> rows;
};

// Streaming multiprocessors, for how many tiles run at once (data sheets).
double processors(const std::string& system) {
  if (system == "a100_sxm") return 108;
  if (system == "b200_sxm") return 148;
  return system == "l40s" ? 142 : 132;
}

// Bytes of the last cache before memory (data sheets): a measured loop finds KV that fits there again.
double cache_bytes(const std::string& system) {
  if (system == "a100_sxm") return 40e6;
  if (system == "b200_sxm") return 126e6;
  return system == "l40s" ? 96e6 : 50e6;
}

double compute_capability(const std::string& system) {
  if (system == "a100_sxm") return 8.0;
  if (system == "b200_sxm") return 10.0;
  return system == "l40s" ? 8.9 : 9.0;
}

Csv table_of(const char* file) {
  auto csv = Csv::parse(data_file(file), file);
  CHECK(csv.has_value());
  return *std::move(csv);
}

double cell(const Csv& csv, std::size_t row, const char* column) {
  const auto value = csv.number(row, column, 0);
  CHECK(value.has_value() && *value >= 0);
  return *value;
}

const Hardware& hardware_of(const std::string& system) {
  static std::map<std::string, Hardware> known;
  const auto found = known.find(system);
  if (found != known.end()) return found->second;
  auto hardware = find_hardware(system);
  CHECK(hardware.has_value());
  return known[system] = *std::move(hardware);
}

double up_to(double value, double step) {
  return std::ceil(value / step) * step;
}

// Microseconds: arithmetic, the same in whole waves of 128 x 128 tiles, weights, activations, a launch.
OpTable gemm_table() {
  OpTable table{"GEMM", "matrix (n, k)", "rows m", {1.2, 0.3, 1.1, 1, 3}, {kGroupScale}, {}};
  const Csv csv = table_of("op_gemm.csv");
  for (std::size_t i = 0; i < csv.rows(); ++i) {
    OpRow row;
    row.system = std::string(csv.at(i, "system"));
    const Hardware& h = hardware_of(row.system);
    const double bits = cell(csv, i, "bits"), m = cell(csv, i, "m"), n = cell(csv, i, "n"), k = cell(csv, i, "k");
    const double peak = h.peak_tflops(bits) * 1e6, bandwidth = h.bandwidth_gbs * 1e3, sms = processors(row.system);
    row.block = fmt::format("{}/{:g}", row.system, bits);
    row.groups = {row.block};
    row.shape = fmt::format("{:g}x{:g}", n, k);
    row.column = fmt::format("{:g}", m);
    const double tiles = std::ceil(m / 128) * std::ceil(n / 128);
    row.terms = {2 * m * n * k / peak, std::ceil(tiles / sms) * sms * 128 * 128 * 2 * k / peak,
                 n * k * bits / 8 / bandwidth, m * (k * bits / 8 + 2 * n) / bandwidth, 1};
    row.at = {std::log(m), std::log(n) / 1.5, std::log(k) / 1.5};
    row.log_y = std::log(cell(csv, i, "us"));
    table.rows.push_back(std::move(row));
  }
  return table;
}

OpTable prefill_table() {
  OpTable table{"prefill attention", "heads, KV heads, batch", "length", {1.5, 0.5, 1, 4, 0.1}, {kGroupScale}, {}};
  const Csv csv = table_of("op_context_attention.csv");
  for (std::size_t i = 0; i < csv.rows(); ++i) {
    OpRow row;
    row.system = row.block = std::string(csv.at(i, "system"));
    row.groups = {row.block};
    const Hardware& h = hardware_of(row.system);
    const double batch = cell(csv, i, "batch_size"), length = cell(csv, i, "isl"), heads = cell(csv, i, "num_heads"),
                 kv = cell(csv, i, "num_kv_heads");
    const double peak = h.bf16_tflops * 1e6, bandwidth = h.bandwidth_gbs * 1e3, sms = processors(row.system);
    row.shape = fmt::format("{:g}/{:g}/{:g}", heads, kv, batch);
    row.column = fmt::format("{:g}", length);
    const double tile = up_to(length, 128), blocks = batch * heads * tile / 128;
    row.terms = {2 * batch * heads * length * length * kHeadDim / peak,
                 2 * tile * 128 * kHeadDim * up_to(blocks, sms) / peak,
                 batch * length * (2 * heads + 2 * kv) * kHeadDim * 2 / bandwidth, 1, length / 128};
    row.at = {std::log(batch) / 1.2, std::log(length) / 1.2, std::log(heads) / 1.2, std::log(kv) / 2};
    row.log_y = std::log(cell(csv, i, "us"));
    table.rows.push_back(std::move(row));
  }
  return table;
}

// Microseconds: KV that outgrows the cache, all KV, the same in whole waves of heads, a launch, queries, tiles one
// after the other.
OpTable decode_table() {
  OpTable table{
      "decode attention", "heads, KV heads, batch", "context", {0.6, 0.7, 0.3, 4, 0.1, 0.02}, {kGroupScale}, {}};
  const Csv csv = table_of("op_generation_attention.csv");
  for (std::size_t i = 0; i < csv.rows(); ++i) {
    OpRow row;
    row.system = row.block = std::string(csv.at(i, "system"));
    row.groups = {row.block};
    const Hardware& h = hardware_of(row.system);
    const double batch = cell(csv, i, "batch_size"), context = cell(csv, i, "step") + 1,
                 heads = cell(csv, i, "num_heads"), kv = cell(csv, i, "num_kv_heads");
    const double bandwidth = h.bandwidth_gbs * 1e3, sms = processors(row.system);
    row.shape = fmt::format("{:g}/{:g}/{:g}", heads, kv, batch);
    row.column = fmt::format("{:g}", context);
    const double tile = up_to(context, 128);
    const double bytes = batch * context * kv * kHeadDim * 4;
    row.terms = {std::max(0.0, bytes - cache_bytes(row.system)) / bandwidth,
                 bytes / bandwidth,
                 tile * up_to(batch * kv, sms) * kHeadDim * 4 / bandwidth,
                 1,
                 batch * heads * kHeadDim * 4 / bandwidth * 10,
                 tile / 128};
    row.at = {std::log(batch) / 1.2, std::log(context) / 1.2, std::log(heads) / 1.2, std::log(kv) / 2};
    row.log_y = std::log(cell(csv, i, "us"));
    table.rows.push_back(std::move(row));
  }
  return table;
}

// Microseconds to launch without a graph that the device's own work may hide, and distances in the kernel's length.
constexpr std::array<double, 3> kLaunches = {20, 40, 80};
constexpr double kOpDistance = 0.5, kSoftwareDistance = 1, kEagerDistance = 0.3;

struct Collective {
  std::string op;
  double devices = 0, bytes = 0;
  bool shared = false, sum = false, nccl = false, eager = false;
  CollectivePath path = CollectivePath::kRing;
};

// Microseconds: a device's share over its link, a launch, steps, what more than a pair of devices without links of
// their own take from each other on the host's (every device's bytes pass it, once or for every other device); without
// a graph what is left of a launch once the work so far (by the start coefficients) has hidden some, and a copy.
// Gathering and scattering sums go around the ring once, an all-reduce does both.
std::vector<double> collective_terms(const Collective& c, const Hardware& hardware, const std::vector<double>& start) {
  const double n = c.devices, link = hardware.link_gbs * 1e3, passes = c.sum ? 2 : 1;
  double steps = passes * (n - 1), share = passes * c.bytes * (n - 1) / n;
  if (c.path == CollectivePath::kOnce) steps = 1, share = (n - 1) * c.bytes;
  if (c.path == CollectivePath::kTwice || c.path == CollectivePath::kSymmetric) steps = 2;
  std::vector<double> terms = {share / link, 1, steps, c.shared ? passes * c.bytes * (n - 2) / link : 0,
                               c.shared ? passes * c.bytes * (n * (n - 1) - 2) / 8 / link : 0};
  double work = 0;
  for (std::size_t j = 0; j < terms.size(); ++j) work += start[j] * terms[j];
  for (const double launch : kLaunches) terms.push_back(c.eager ? std::max(0.0, launch - work) / launch : 0);
  terms.push_back(c.eager ? 2 * c.bytes / (hardware.bandwidth_gbs * 1e3) : 0);
  return terms;
}

Collective collective_of(const Csv& csv, std::size_t row, const std::string& system, const Hardware& hardware) {
  Collective c;
  c.op = csv.at(row, "op");
  c.devices = cell(csv, row, "num_gpus");
  c.bytes = cell(csv, row, "message_size_elements") * (c.op.ends_with("int8") ? 1 : 2);  // of whatever type
  c.shared = hardware.link_gbs <= hardware.pcie_gbs;
  c.sum = c.op.starts_with("all_reduce");
  c.nccl = c.op.find("nccl") != std::string::npos;
  c.eager = c.op.find("eager") != std::string::npos;
  c.path = c.op.starts_with("alltoall") ? CollectivePath::kExchange
           : c.nccl                     ? CollectivePath::kRing
                                        : sum_path(compute_capability(system), c.shared, c.devices, c.bytes);
  return c;
}

// Levels: the operation (with and without a graph are one), the software that measured it, the path, the GPU. Libraries
// choose protocols by size for a whole path alike, so residuals are smoothed over its operations. Scales and distances
// were chosen by the other four folds.
OpTable collective_table() {
  OpTable table{"collectives", "operation, devices", "size", {1.2, 3, 1, 1, 1, 7, 13, 27, 1}, {0.1, 0.5, 0.5, 1}, {}};
  const Csv csv = table_of("op_collectives.csv");
  for (std::size_t i = 0; i < csv.rows(); ++i) {
    OpRow row;
    row.system = std::string(csv.at(i, "system"));
    const Hardware& h = hardware_of(row.system);
    const Collective c = collective_of(csv, i, row.system, h);
    row.shape = fmt::format("{}/{:g}", c.op, c.devices);
    row.column = std::string(csv.at(i, "message_size_elements"));
    row.block = fmt::format("{}/{}", row.system, kCollectivePathNames[static_cast<std::size_t>(c.path)]);
    const std::string software = row.block + (c.nccl ? "/nccl" : "/vllm");
    row.groups = {software + "/" + c.op.substr(0, c.op.find('/')), software, row.block, row.system};
    row.terms = collective_terms(c, h, table.start);
    const double halves = c.sum ? 2 : c.op.starts_with("all_gather") ? 1 : 0;
    row.at = {std::log(c.bytes) / 1.5, std::log(c.devices), kOpDistance / 2 * halves, c.nccl ? 0 : kSoftwareDistance,
              c.eager ? kEagerDistance : 0};
    row.log_y = std::log(cell(csv, i, "us"));
    table.rows.push_back(std::move(row));
  }
  return table;
}

struct Errors {
  double sum = 0;
  std::vector<double> all;
  void add(double error) {
    const double ape = 100 * std::abs(std::exp(-error) - 1);
    sum += ape;
    all.push_back(ape);
  }
  double mean() const { return all.empty() ? 0 : sum / static_cast<double>(all.size()); }
  double median() {
    if (all.empty()) return 0;
    std::sort(all.begin(), all.end());
    return (all[(all.size() - 1) / 2] + all[all.size() / 2]) / 2;
  }
};

constexpr double kTermSd = 1, kNoise = 0.08, kSmoothSd = 0.25, kSmoothNoise = 0.04;

// Fits the rows that are not held out, and adds the held-out ones' errors by system.
void score(const OpTable& table, const std::function<bool(const OpRow&)>& held, std::map<std::string, Errors>& out) {
  HierarchyPrior prior;
  prior.start = table.start;
  prior.kind.assign(table.start.size(), 0);
  prior.kind_sd = {kTermSd};
  prior.noise = kNoise;
  std::vector<HierarchyRow> rows;
  for (const double scale : table.scales) prior.levels.push_back({scale, true});
  for (const OpRow& row : table.rows) rows.push_back({row.terms, row.groups, row.log_y});
  std::vector<const HierarchyRow*> train;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!held(table.rows[i])) train.push_back(&rows[i]);
  }
  const Hierarchy fit = Hierarchy::fit(train, prior);
  std::vector<NeighbourPoint> points;
  std::vector<double> residuals;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (held(table.rows[i])) continue;
    points.push_back({table.rows[i].block, table.rows[i].at});
    residuals.push_back(rows[i].log_y - fit.log_mean(rows[i]));
  }
  Neighbours smooth;
  smooth.fit(std::move(points), residuals, kSmoothSd, kSmoothNoise);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!held(table.rows[i])) continue;
    const double predicted = fit.log_mean(rows[i]) + smooth.at({table.rows[i].block, table.rows[i].at});
    out[table.rows[i].system].add(rows[i].log_y - predicted);
    out["all"].add(rows[i].log_y - predicted);
  }
}

// Every fifth of the sorted columns, from the third on: never the smallest or the largest, which would be asking for
// extrapolation.
std::set<std::string> held_columns(const OpTable& table) {
  std::map<double, std::string> sorted;
  for (const OpRow& row : table.rows) sorted[std::strtod(row.column.c_str(), nullptr)] = row.column;
  std::set<std::string> out;
  std::size_t i = 0;
  for (const auto& [value, column] : sorted) {
    if (i % 5 == 2 && i + 1 < sorted.size()) out.insert(column);
    ++i;
  }
  return out;
}

}  // namespace

Result<Report> validate_ops() {
  Report report;
  report.text = fmt::format("{:<18} {:<26} {:<9} {:>6} {:>7} {:>7}  {}\n", "operator", "held out (1 in 5, whole)",
                            "GPU", "n", "mean %", "med. %", "target <= 12");
  auto json = nlohmann::ordered_json::array();
  for (const auto& table : {gemm_table(), prefill_table(), decode_table(), collective_table()}) {
    for (const bool by_shape : {true, false}) {
      std::map<std::string, Errors> errors;
      const auto columns = held_columns(table);
      score(
          table,
          [&](const OpRow& row) {
            return by_shape ? fold_of(row.shape + table.name) == 0 : columns.contains(row.column);
          },
          errors);
      for (auto& [system, e] : errors) {
        const bool met = e.mean() <= kTargetPercent;
        report.text += fmt::format("{:<18} {:<26} {:<9} {:>6} {:>7.2f} {:>7.2f}  {}\n", table.name,
                                   by_shape ? table.shapes : table.columns, system, e.all.size(), e.mean(), e.median(),
                                   met ? "met" : "missed");
        json.push_back({{"operator", table.name},
                        {"held_out", by_shape ? table.shapes : table.columns},
                        {"system", system},
                        {"count", e.all.size()},
                        {"mean_ape_percent", e.mean()},
                        {"median_ape_percent", e.median()},
                        {"met", met}});
      }
    }
  }
  report.json = {{"target_percent", kTargetPercent}, {"scores", std::move(json)}};
  return report;
}

}  // namespace weir::plan
