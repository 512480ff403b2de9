// KernelProfile: the measured times of one model's kernels on one device, and what they say of shapes between the
// measured ones.
//
// Tables, as LLMServingSim's profiler writes them (microseconds a layer and pass): dense.csv (layer, tokens),
// per_sequence.csv (layer, sequences), attention.csv (prefill_chunk, kv_prefill, n_decode, kv_decode) and, for
// mixtures of experts, moe.csv (tokens, activated_experts). A chunk of prefill_chunk rows sees kv_prefill earlier
// tokens, each of n_decode rows kv_decode of them.
//
// Between two measured shapes, one-dimensional tables are linear, held beyond their ends in their last slope.
// Attention is work * efficiency: work is a sum of five terms (constant, prefill rows, pairs of prefill, decode rows,
// KV read by them) with non-negative coefficients fitted to the table itself; efficiency, the measured time over
// that, is interpolated linearly on each axis among the shapes measured there. So a missing corner of the grid costs
// nothing, and what grows with the square of a chunk is not taken for linear.
//
// Hostile input: an error names file, line and column. Cost: reading O(rows log rows); one query 16 binary searches.
#pragma once

#include <array>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace weir::plan::vllm {

// Points (x, time), ascending in x; at least one.
class Curve {
 public:
  void add(double x, double time_us) { points_.emplace_back(x, time_us); }
  Status finish(const std::string& name);  // sorts; an x may stand once
  double at(double x) const;
  double last_x() const { return points_.back().first; }

 private:
  std::vector<std::pair<double, double>> points_;
};

struct AttentionPoint {
  double prefill_rows = 0, prefill_context = 0, decode_rows = 0, decode_context = 0, time_us = 0;
};

class AttentionTable {
 public:
  // `name` is for errors.
  static Result<AttentionTable> build(std::vector<AttentionPoint> points, const std::string& name);

  // Of one pass: `prefill_pairs` of query and key over all prefill rows; `decode_read`: KV entries that decode rows
  // see.
  double at(double prefill_rows, double prefill_pairs, double decode_rows, double decode_read) const;

 private:
  struct Axis {
    std::vector<double> keys;
    std::vector<std::size_t> next;  // index of the Axis below, or of an efficiency
  };
  using Terms = std::array<double, 5>;
  static Terms terms(double prefill_rows, double prefill_pairs, double decode_rows, double decode_read);
  void fit(const std::vector<AttentionPoint>& points);
  double work(const Terms& terms) const;
  double interpolate(const Axis& axis, int depth, const std::array<double, 4>& at) const;

  Terms coefficients_{};
  std::vector<Axis> axes_;  // 0: the first
  std::vector<double> efficiency_;
};

// Time by tokens and by experts that any of them chose.
class MoeTable {
 public:
  static Result<MoeTable> build(const std::map<double, Curve>& by_tokens, const std::string& name);
  double at(double tokens, double experts) const;

 private:
  std::vector<std::pair<double, Curve>> by_tokens_;
};

struct KernelProfile {
  std::map<std::string, Curve, std::less<>> layers;  // of dense.csv and per_sequence.csv
  AttentionTable attention;
  bool has_moe = false;
  MoeTable moe;

  double layer(std::string_view name, double rows) const;  // 0: the model has no such layer
};

// The files of one profile folder, whole. `moe`: empty where there is none; `experts_split`: of its rows those for so
// many parts of the experts (column ep), where it tells them apart.
struct ProfileFiles {
  std::string dense, per_sequence, attention, moe;
  std::string folder;  // for errors
  int experts_split = 1;
};
Result<KernelProfile> read_profile(const ProfileFiles& files);

// Which layers a profile must have for step times to mean anything; kCorruptFile names those that lack.
Status check_layers(const KernelProfile& profile, const std::string& name);

}  // namespace weir::plan::vllm
