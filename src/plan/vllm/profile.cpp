#include "plan/vllm/profile.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/printable.h"
#include "plan/csv.h"

namespace weir::plan::vllm {

namespace {

constexpr double kMostTime_us = 1e9;  // more for one layer is no measurement
constexpr double kMostRows = 1e9;

// Cell as a number in [least, most].
Result<double> bounded(const Csv& csv, std::size_t row, const char* column, double least, double most,
                       const std::string& file) {
  WEIR_TRY(const double value, csv.number(row, column, std::nan("")));
  if (!(value >= least && value <= most)) {
    return fail_at(column, ErrorCode::kCorruptFile, "{} line {}: {} is '{}'; expected a number from {} to {}", file,
                   row + 2, column, printable(csv.at(row, column)), least, most);
  }
  return value;
}

// The layers of dense.csv (column tokens) and per_sequence.csv (column sequences).
Status read_layers(KernelProfile& profile, const std::string& text, const std::string& file, const char* rows_column) {
  WEIR_TRY(const Csv csv, Csv::parse(text, file));
  WEIR_RETURN_IF_ERROR(csv.require({"layer", rows_column, "time_us"}));
  std::map<std::string, Curve, std::less<>> found;
  for (std::size_t i = 0; i < csv.rows(); ++i) {
    WEIR_TRY(const double rows, bounded(csv, i, rows_column, 1, kMostRows, file));
    WEIR_TRY(const double time_us, bounded(csv, i, "time_us", 0, kMostTime_us, file));
    found[std::string(csv.at(i, "layer"))].add(rows, time_us);
  }
  for (auto& [name, curve] : found) {
    WEIR_RETURN_IF_ERROR(curve.finish(fmt::format("{}: layer {}", file, printable(name))));
    profile.layers.insert_or_assign(name, std::move(curve));
  }
  return {};
}

Result<std::vector<AttentionPoint>> read_attention(const std::string& text, const std::string& file) {
  WEIR_TRY(const Csv csv, Csv::parse(text, file));
  // Later profiles give the mean key length of a row (half the chunk more than the context before it).
  const bool mean_keys = !csv.has("kv_prefill") && csv.has("prefill_key");
  const char* context = mean_keys ? "prefill_key" : "kv_prefill";
  WEIR_RETURN_IF_ERROR(csv.require({"prefill_chunk", context, "n_decode", "kv_decode", "time_us"}));
  std::vector<AttentionPoint> points;
  points.reserve(csv.rows());
  for (std::size_t i = 0; i < csv.rows(); ++i) {
    if (csv.has("decode_q_len") && csv.at(i, "decode_q_len") != "1") continue;  // rows of speculative decoding
    AttentionPoint point;
    WEIR_TRY(point.prefill_rows, bounded(csv, i, "prefill_chunk", 0, kMostRows, file));
    WEIR_TRY(point.prefill_context, bounded(csv, i, context, 0, kMostRows, file));
    WEIR_TRY(point.decode_rows, bounded(csv, i, "n_decode", 0, kMostRows, file));
    WEIR_TRY(point.decode_context, bounded(csv, i, "kv_decode", 0, kMostRows, file));
    WEIR_TRY(point.time_us, bounded(csv, i, "time_us", 1e-6, kMostTime_us, file));
    if (mean_keys) point.prefill_context = std::max(0.0, point.prefill_context - point.prefill_rows / 2);
    points.push_back(point);
  }
  return points;
}

Result<MoeTable> read_moe(const std::string& text, const std::string& file, int experts_split) {
  WEIR_TRY(const Csv csv, Csv::parse(text, file));
  WEIR_RETURN_IF_ERROR(csv.require({"tokens", "activated_experts", "time_us"}));
  const std::string split = std::to_string(experts_split);
  std::map<double, Curve> by_tokens;
  for (std::size_t i = 0; i < csv.rows(); ++i) {
    if (csv.has("ep") && csv.at(i, "ep") != split) continue;
    WEIR_TRY(const double tokens, bounded(csv, i, "tokens", 1, kMostRows, file));
    WEIR_TRY(const double experts, bounded(csv, i, "activated_experts", 1, kMostRows, file));
    WEIR_TRY(const double time_us, bounded(csv, i, "time_us", 0, kMostTime_us, file));
    by_tokens[tokens].add(experts, time_us);
  }
  if (by_tokens.empty()) return fail(ErrorCode::kCorruptFile, "{} has no row for experts in {} parts", file, split);
  return MoeTable::build(by_tokens, file);
}

// Where `at` lies among ascending keys: between `low` and `high`, `share` of the way.
struct Between {
  std::size_t low = 0, high = 0;
  double share = 0;
};

Between between(std::span<const double> keys, double at, std::size_t first) {
  const auto begin = keys.begin() + static_cast<std::ptrdiff_t>(first);
  const auto upper = std::lower_bound(begin, keys.end(), at);
  if (upper == begin) return {first, first, 0};
  if (upper == keys.end()) return {keys.size() - 1, keys.size() - 1, 0};
  const auto high = static_cast<std::size_t>(upper - keys.begin());
  return {high - 1, high, (at - keys[high - 1]) / (keys[high] - keys[high - 1])};
}

}  // namespace

Status Curve::finish(const std::string& name) {
  std::sort(points_.begin(), points_.end());
  for (std::size_t i = 1; i < points_.size(); ++i) {
    if (points_[i].first == points_[i - 1].first) {
      return fail(ErrorCode::kCorruptFile, "{} has two times for {}: {} and {} us; one is needed", name,
                  points_[i].first, points_[i - 1].second, points_[i].second);
    }
  }
  return {};
}

double Curve::at(double x) const {
  if (points_.size() == 1 || x <= points_.front().first) return points_.front().second;
  auto upper = std::lower_bound(points_.begin(), points_.end(), std::pair(x, -1.0));
  if (upper == points_.end()) --upper;
  const auto& [x0, y0] = *(upper - 1);
  const auto& [x1, y1] = *upper;
  return std::max(0.0, y0 + (y1 - y0) * (x - x0) / (x1 - x0));
}

AttentionTable::Terms AttentionTable::terms(double prefill_rows, double prefill_pairs, double decode_rows,
                                            double decode_read) {
  return {1, prefill_rows, prefill_pairs, decode_rows, decode_read};
}

double AttentionTable::work(const Terms& terms) const {
  double sum = 0;
  for (std::size_t i = 0; i < terms.size(); ++i) sum += coefficients_[i] * terms[i];
  return sum;
}

// Least squares of relative errors over non-negative coefficients: coordinate descent on the normal equations, whose
// columns are scaled to one. Each step lowers the error; 5 columns settle long before the last round.
void AttentionTable::fit(const std::vector<AttentionPoint>& points) {
  constexpr int kRounds = 3000;
  std::array<Terms, 5> normal{};
  Terms right{}, scale{};
  for (const bool scaled : {false, true}) {
    for (const AttentionPoint& p : points) {
      Terms row = terms(p.prefill_rows, p.prefill_rows * (p.prefill_context + p.prefill_rows / 2), p.decode_rows,
                        p.decode_rows * p.decode_context);
      for (std::size_t i = 0; i < 5; ++i) {
        row[i] /= p.time_us;
        if (!scaled) scale[i] += row[i] * row[i];
        if (scaled && scale[i] > 0) row[i] /= std::sqrt(scale[i]);
      }
      if (!scaled) continue;
      for (std::size_t i = 0; i < 5; ++i) {
        right[i] += row[i];
        for (std::size_t j = 0; j < 5; ++j) normal[i][j] += row[i] * row[j];
      }
    }
  }
  for (int round = 0; round < kRounds; ++round) {
    for (std::size_t i = 0; i < 5; ++i) {
      if (scale[i] <= 0) continue;  // no point has this kind of work
      double rest = right[i];
      for (std::size_t j = 0; j < 5; ++j) rest -= j == i ? 0 : normal[i][j] * coefficients_[j];
      coefficients_[i] = std::max(0.0, rest / normal[i][i]);
    }
  }
  for (std::size_t i = 0; i < 5; ++i) coefficients_[i] = scale[i] > 0 ? coefficients_[i] / std::sqrt(scale[i]) : 0;
}

Result<AttentionTable> AttentionTable::build(std::vector<AttentionPoint> points, const std::string& name) {
  if (points.empty()) return fail(ErrorCode::kCorruptFile, "{} has no times of attention", name);
  const auto key = [](const AttentionPoint& p) {
    return std::array{p.prefill_rows, p.decode_rows, p.prefill_context, p.decode_context};
  };
  std::sort(points.begin(), points.end(), [&](const auto& a, const auto& b) { return key(a) < key(b); });
  AttentionTable table;
  table.fit(points);
  table.axes_.emplace_back();
  std::array<std::size_t, 4> open{};  // the axis that the last point went into, at each depth
  for (std::size_t n = 0; n < points.size(); ++n) {
    const std::array<double, 4> at = key(points[n]);
    std::size_t depth = 0;
    while (n > 0 && depth < 4 && at[depth] == key(points[n - 1])[depth]) ++depth;
    if (depth == 4) {
      return fail(ErrorCode::kCorruptFile,
                  "{} has two times for prefill_chunk {}, kv_prefill {}, n_decode {}, kv_decode {}; one is needed",
                  name, at[0], at[2], at[1], at[3]);
    }
    for (; depth < 4; ++depth) {
      Axis& axis = table.axes_[open[depth]];
      axis.keys.push_back(at[depth]);
      axis.next.push_back(depth == 3 ? table.efficiency_.size() : table.axes_.size());
      if (depth < 3) {
        open[depth + 1] = table.axes_.size();
        table.axes_.emplace_back();
      }
    }
    const AttentionPoint& p = points[n];
    const double work = table.work(terms(p.prefill_rows, p.prefill_rows * (p.prefill_context + p.prefill_rows / 2),
                                         p.decode_rows, p.decode_rows * p.decode_context));
    if (!(work > 0)) return fail(ErrorCode::kCorruptFile, "{}: times of attention do not grow with its work", name);
    table.efficiency_.push_back(p.time_us / work);
  }
  return table;
}

double AttentionTable::interpolate(const Axis& axis, int depth, const std::array<double, 4>& at) const {
  const double x = at[static_cast<std::size_t>(depth)];
  // A pass with prefill or decode rows runs another kernel than one without: their zeros are no neighbours of ones.
  const bool apart = depth < 2 && x > 0 && axis.keys.front() == 0 && axis.keys.size() > 1;
  const Between found = between(axis.keys, x, apart ? 1 : 0);
  const auto value = [&](std::size_t i) {
    return depth == 3 ? efficiency_[axis.next[i]] : interpolate(axes_[axis.next[i]], depth + 1, at);
  };
  const double low = value(found.low);
  return found.high == found.low ? low : low + (value(found.high) - low) * found.share;
}

double AttentionTable::at(double prefill_rows, double prefill_pairs, double decode_rows, double decode_read) const {
  if (prefill_rows <= 0 && decode_rows <= 0) return 0;
  const double prefill_context = prefill_rows > 0 ? std::max(0.0, prefill_pairs / prefill_rows - prefill_rows / 2) : 0;
  const double decode_context = decode_rows > 0 ? decode_read / decode_rows : 0;
  return work(terms(prefill_rows, prefill_pairs, decode_rows, decode_read)) *
         interpolate(axes_.front(), 0, {prefill_rows, decode_rows, prefill_context, decode_context});
}

Result<MoeTable> MoeTable::build(const std::map<double, Curve>& by_tokens, const std::string& name) {
  MoeTable table;
  for (const auto& [tokens, curve] : by_tokens) {
    table.by_tokens_.emplace_back(tokens, curve);
    WEIR_RETURN_IF_ERROR(table.by_tokens_.back().second.finish(fmt::format("{}: tokens {}", name, tokens)));
  }
  return table;
}

double MoeTable::at(double tokens, double experts) const {
  const auto time_us = [&](std::size_t i) { return by_tokens_[i].second.at(experts); };
  if (by_tokens_.size() == 1 || tokens <= by_tokens_.front().first) return time_us(0);
  std::size_t high = 1;
  while (high + 1 < by_tokens_.size() && by_tokens_[high].first < tokens) ++high;
  const double x0 = by_tokens_[high - 1].first, x1 = by_tokens_[high].first;
  const double y0 = time_us(high - 1), y1 = time_us(high);
  return std::max(0.0, y0 + (y1 - y0) * (tokens - x0) / (x1 - x0));
}

double KernelProfile::layer(std::string_view name, double rows) const {
  const auto it = layers.find(name);
  return it == layers.end() ? 0 : it->second.at(rows);
}

Result<KernelProfile> read_profile(const ProfileFiles& files) {
  KernelProfile profile;
  WEIR_RETURN_IF_ERROR(read_layers(profile, files.dense, files.folder + "/dense.csv", "tokens"));
  WEIR_RETURN_IF_ERROR(read_layers(profile, files.per_sequence, files.folder + "/per_sequence.csv", "sequences"));
  const std::string attention = files.folder + "/attention.csv";
  WEIR_TRY(auto points, read_attention(files.attention, attention));
  WEIR_TRY(profile.attention, AttentionTable::build(std::move(points), attention));
  profile.has_moe = !files.moe.empty();
  if (profile.has_moe) {
    WEIR_TRY(profile.moe, read_moe(files.moe, files.folder + "/moe.csv", files.experts_split));
  }
  WEIR_RETURN_IF_ERROR(check_layers(profile, files.folder));
  return profile;
}

Status check_layers(const KernelProfile& profile, const std::string& name) {
  std::string missing;
  for (const char* layer : {"qkv_proj", "o_proj", "layernorm", "lm_head", "sampler"}) {
    if (!profile.layers.contains(layer)) missing += (missing.empty() ? "" : ", ") + std::string(layer);
  }
  if (!profile.has_moe && !profile.layers.contains("gate_up_proj")) {
    missing += (missing.empty() ? "" : ", ") + std::string("gate_up_proj (or a moe.csv)");
  }
  if (missing.empty()) return {};
  return fail(ErrorCode::kCorruptFile, "{}: no times of {}; every layer of the model is needed", name, missing);
}

}  // namespace weir::plan::vllm
