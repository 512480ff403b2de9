#include "plan/silicon/validate_silicon.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <map>
#include <set>

#include "plan/silicon/intervals.h"
#include "plan/silicon/silicon_model.h"

namespace weir::plan {
namespace {

using Rows = std::vector<const SiliconRow*>;
using Json = nlohmann::ordered_json;

double measured_log(const SiliconRow& row, Latency latency) {
  return std::log(latency == Latency::kTpot ? row.tpot_ms : row.ttft_ms);
}

// A row predicted by a fit that had not seen it.
struct Prediction {
  const SiliconRow* row = nullptr;
  std::string group;  // left out with it
  Support support = Support::kNone;
  double error = 0;  // log(measured / predicted)
  bool covered = false;
  double ape() const { return std::abs(std::exp(-error) - 1); }
};

// Fits `known` once per group of the rows, without that group, and predicts it. Of one kind's fit only.
std::vector<Prediction> left_out(const Rows& rows, const Rows& known, Latency latency,
                                 const std::function<std::string(const SiliconRow&)>& group_of) {
  std::map<std::string, Rows> groups;
  for (const SiliconRow* row : rows) groups[group_of(*row)].push_back(row);
  std::vector<Prediction> out;
  for (const auto& [name, held] : groups) {
    Rows train;
    for (const SiliconRow* row : known) {
      if (group_of(*row) != name) train.push_back(row);
    }
    if (train.empty()) continue;
    const SiliconModel model = SiliconModel::fit(train, latency);
    for (const SiliconRow* row : held)
      out.push_back({row, name, model.support(*row), measured_log(*row, latency) - model.log_ms(*row), false});
  }
  return out;
}

// Every row's interval is made of the errors of the other groups only.
void cover(std::vector<Prediction>& predictions) {
  std::set<std::string> groups;
  for (const Prediction& p : predictions) groups.insert(p.group);
  for (const std::string& group : groups) {
    Intervals intervals;
    for (const Prediction& p : predictions) {
      if (p.group != group) intervals.add(p.support, p.error);
    }
    for (Prediction& p : predictions) {
      if (p.group == group) p.covered = intervals.at(p.support).holds(p.error);
    }
  }
}

struct Score {
  std::size_t rows = 0;
  double mean = 0, median = 0, p90 = 0, coverage = 0;  // percent
};

Score score(const std::vector<Prediction>& predictions) {
  Score out;
  out.rows = predictions.size();
  if (predictions.empty()) return out;
  std::vector<double> errors;
  for (const Prediction& p : predictions) {
    errors.push_back(100 * p.ape());
    out.mean += errors.back();
    out.coverage += p.covered ? 100 : 0;
  }
  const auto n = static_cast<double>(errors.size());
  out.mean /= n;
  out.coverage /= n;
  std::sort(errors.begin(), errors.end());
  out.median = (errors[(errors.size() - 1) / 2] + errors[errors.size() / 2]) / 2;
  out.p90 = errors[std::min(errors.size() - 1, errors.size() * 9 / 10)];
  return out;
}

struct Line {
  std::string split, rows;
  Latency latency;
  Score score;
  double target = 0;           // percent; 0: none set
  bool target_median = false;  // of the median, else of the mean
  bool met() const { return target == 0 || (target_median ? score.median : score.mean) <= target; }
};

Json to_json(const Line& line) {
  Json json = {{"split", line.split},
               {"rows", line.rows},
               {"latency", kLatencyNames[static_cast<std::size_t>(line.latency)]},
               {"count", line.score.rows},
               {"mean_ape_percent", line.score.mean},
               {"median_ape_percent", line.score.median},
               {"p90_ape_percent", line.score.p90},
               {"interval90_coverage_percent", line.score.coverage}};
  if (line.target > 0) {
    json["target_percent"] = line.target;
    json["target_of"] = line.target_median ? "median" : "mean";
    json["met"] = line.met();
  }
  return json;
}

std::string to_text(const Line& line) {
  std::string target = "-";
  if (line.target > 0)
    target = fmt::format("{} <= {:.0f}: {}", line.target_median ? "median" : "mean", line.target,
                         line.met() ? "met" : "missed");
  return fmt::format("{:<24} {:<22} {:<5} {:>5} {:>7.2f} {:>7.2f} {:>7.1f} {:>8.1f}  {}\n", line.split, line.rows,
                     kLatencyNames[static_cast<std::size_t>(line.latency)], line.score.rows, line.score.mean,
                     line.score.median, line.score.p90, line.score.coverage, target);
}

std::string table_head() {
  return fmt::format("{:<24} {:<22} {:<5} {:>5} {:>7} {:>7} {:>7} {:>8}  {}\n", "split", "rows", "", "n", "mean %",
                     "med. %", "p90 %", "in 90 %", "target");
}

class Sheet {
 public:
  void add(Line line) {
    text_ += to_text(line);
    json_.push_back(to_json(line));
  }
  // One line for all and one for every group that was left out.
  void add_groups(const std::string& split, const std::string& rows, Latency latency,
                  const std::vector<Prediction>& predictions, double target) {
    add({split, rows, latency, score(predictions), target, false});
    std::map<std::string, std::vector<Prediction>> groups;
    for (const Prediction& p : predictions) groups[p.group].push_back(p);
    for (const auto& [name, members] : groups) add({"  without " + name, rows, latency, score(members), 0, false});
  }
  std::string text_;
  Json json_ = Json::array();
};

Rows of_kind(const Rows& rows, RowKind kind) {
  Rows out;
  std::copy_if(rows.begin(), rows.end(), std::back_inserter(out), [&](const auto* row) { return row->kind() == kind; });
  return out;
}

Rows of_fit(const Rows& rows, RowKind fit, Latency latency) {
  Rows out;
  std::copy_if(rows.begin(), rows.end(), std::back_inserter(out),
               [&](const auto* row) { return fit_kind(*row, latency) == fit; });
  return out;
}

// All rows of a kind, each by the fit that says it.
std::vector<Prediction> left_out(const Rows& all, RowKind kind, Latency latency,
                                 const std::function<std::string(const SiliconRow&)>& group_of) {
  std::vector<Prediction> out;
  for (const RowKind fit : {RowKind::kDense, RowKind::kMixture, RowKind::kDisaggregated}) {
    const auto some =
        left_out(of_fit(of_kind(all, kind), fit, latency), of_fit(of_kind(all, fit), fit, latency), latency, group_of);
    out.insert(out.end(), some.begin(), some.end());
  }
  return out;
}

std::string filter_text(const SiliconTable& table, const std::string& name) {
  std::string text = fmt::format("{}: {} rows\n", name, table.rows.size());
  for (std::size_t fate = 0; fate < kRowFates; ++fate)
    text += fmt::format("  {:>5}  {}\n", table.fates[fate], fate_name(static_cast<RowFate>(fate)));
  for (const std::string& note : table.notes) text += "  note: " + note + "\n";
  return text;
}

// In one line: how many rows had which fate, and the first notes.
std::string why_dropped(const SiliconTable& table) {
  constexpr std::size_t kNotes = 3;
  std::string text;
  for (std::size_t fate = 0; fate < kRowFates; ++fate) {
    if (table.fates[fate] > 0)
      text +=
          fmt::format("{}{} {}", text.empty() ? "" : ", ", table.fates[fate], fate_name(static_cast<RowFate>(fate)));
  }
  for (std::size_t i = 0; i < std::min(kNotes, table.notes.size()); ++i) text += "; " + table.notes[i];
  return text.empty() ? "the table is empty" : text;
}

Json filter_json(const SiliconTable& table) {
  Json json = Json::object();
  json["rows"] = table.rows.size();
  for (std::size_t fate = 0; fate < kRowFates; ++fate)
    json[std::string(fate_name(static_cast<RowFate>(fate)))] = table.fates[fate];
  json["notes"] = table.notes;
  return json;
}

constexpr std::array<RowKind, 3> kKinds = {RowKind::kDense, RowKind::kMixture, RowKind::kDisaggregated};
constexpr std::array<Latency, 2> kLatencies = {Latency::kTpot, Latency::kTtft};

std::string fold_name(const SiliconRow& row) {
  return fmt::format("fold {}", fold_of(row.configuration()));
}

Report cross_validate(const SiliconValidation& options) {
  const SiliconTable& table = shared_silicon();
  const Rows rows = table.used();
  Sheet sheet;
  std::array<std::vector<Prediction>, 2> all;
  constexpr std::array<double, 3> kTpotTargets = {7, 18, 18};
  std::vector<Prediction> mixed;
  for (const RowKind kind : kKinds) {
    for (const Latency latency : kLatencies) {
      auto predictions = left_out(rows, kind, latency, fold_name);
      cover(predictions);
      const bool tpot = latency == Latency::kTpot;
      sheet.add({"5 folds", std::string(kRowKindNames[static_cast<std::size_t>(kind)]), latency, score(predictions),
                 tpot ? kTpotTargets[static_cast<std::size_t>(kind)] : 25, !tpot});
      auto& joined = all[static_cast<std::size_t>(latency)];
      joined.insert(joined.end(), predictions.begin(), predictions.end());
      if (tpot && kind != RowKind::kDense) mixed.insert(mixed.end(), predictions.begin(), predictions.end());
    }
  }
  sheet.add({"5 folds", "mixture + disagg.", Latency::kTpot, score(mixed), 18, false});
  for (const Latency latency : kLatencies)
    sheet.add({"5 folds", "all", latency, score(all[static_cast<std::size_t>(latency)]),
               latency == Latency::kTtft ? 25.0 : 0.0, true});
  for (const RowKind kind : kKinds) {
    if (kind == RowKind::kDisaggregated || (kind == RowKind::kMixture && !options.groups_of_mixtures)) continue;
    const std::string name(kRowKindNames[static_cast<std::size_t>(kind)]);
    const bool dense = kind == RowKind::kDense;
    for (const Latency latency : kLatencies) {
      const bool target = dense && latency == Latency::kTpot;
      auto by_model = left_out(rows, kind, latency, [](const SiliconRow& row) { return row.model; });
      cover(by_model);
      sheet.add_groups("one model left out", name, latency, by_model, target ? 12 : 0);
      auto by_system = left_out(rows, kind, latency, [](const SiliconRow& row) { return row.system; });
      cover(by_system);
      sheet.add_groups("one GPU left out", name, latency, by_system, target ? 15 : 0);
    }
  }
  Report report;
  report.text = filter_text(table, "shared table") +
                "split: 5 folds by a hash of the configuration (model, system, backend, bits, layout, lengths, "
                "concurrency), so that repeats of one share a fold\n\n" +
                table_head() + sheet.text_;
  report.json = {{"filter", filter_json(table)}, {"scores", std::move(sheet.json_)}};
  return report;
}

Result<Report> score_file(const SiliconValidation& options) {
  WEIR_TRY(const SiliconTable table, read_silicon(options.text, options.file));
  const Rows rows = table.used();
  if (rows.empty())
    return fail(ErrorCode::kInvalidArgument, "{}: no row of {} can be scored: {}", options.file, table.rows.size(),
                why_dropped(table));
  std::set<std::string> known;
  for (const SiliconRow* row : shared_silicon().used()) known.insert(row->measurement());
  Sheet sheet;
  Json each = Json::array();
  for (const RowKind kind : kKinds) {
    const Rows members = of_kind(rows, kind);
    if (members.empty()) continue;
    const std::string name(kRowKindNames[static_cast<std::size_t>(kind)]);
    for (const Latency latency : kLatencies) {
      const Intervals intervals = past_errors(kind, latency);
      std::vector<Prediction> seen, fresh, new_software;
      for (const SiliconRow* row : members) {
        const SiliconModel& model = shared_model(fit_kind(*row, latency), latency);
        Prediction p{row, "", model.support(*row), 0, false};
        const double measured = std::exp(measured_log(*row, latency));
        const Estimate predicted = estimate(model.log_ms(*row), intervals.at(p.support), floor_ms(*row, latency));
        p.error = std::log(measured / predicted.ms);
        p.covered = predicted.low_ms <= measured && measured <= predicted.high_ms;
        const bool in_fit = known.contains(row->measurement());
        (in_fit ? seen : fresh).push_back(p);
        if (p.support == Support::kNone) new_software.push_back(p);
        each.push_back({{"line", row->line},
                        {"latency", kLatencyNames[static_cast<std::size_t>(latency)]},
                        {"measured_ms", measured},
                        {"predicted_ms", predicted.ms},
                        {"low_ms", predicted.low_ms},
                        {"high_ms", predicted.high_ms},
                        {"bound_ms", predicted.floor_ms},
                        {"in_fit", in_fit}});
      }
      const bool tpot = latency == Latency::kTpot;
      const double target = tpot ? (kind == RowKind::kDense ? 7 : 18) : 25;
      if (!fresh.empty()) sheet.add({"new rows", name, latency, score(fresh), target, !tpot});
      if (!new_software.empty()) sheet.add({"  of software not in fit", name, latency, score(new_software), 0, false});
      if (!seen.empty()) sheet.add({"rows of the fit itself", name, latency, score(seen), 0, false});
    }
  }
  Report report;
  report.text = filter_text(table, options.file) + "\n" + table_head() + sheet.text_;
  report.json = {{"file", options.file},
                 {"filter", filter_json(table)},
                 {"scores", std::move(sheet.json_)},
                 {"rows", std::move(each)}};
  return report;
}

}  // namespace

// Interval of rows that are new: from the shared table's cross-validated errors, and, for software that the fit has
// never seen, from the errors with a model or a GPU left out.
Intervals past_errors(RowKind kind, Latency latency) {
  const Rows rows = shared_silicon().used();
  Intervals intervals;
  for (const Prediction& p : left_out(rows, kind, latency, fold_name)) {
    if (p.support != Support::kNone) intervals.add(p.support, p.error);
  }
  for (const Prediction& p : left_out(rows, kind, latency, [](const SiliconRow& row) { return row.model; }))
    intervals.add(Support::kNone, p.error);
  return intervals;
}

int fold_of(const std::string& configuration) {
  std::uint64_t hash = 14695981039346656037ull;  // FNV-1a
  for (const char c : configuration) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  hash ^= hash >> 32;
  return static_cast<int>(hash % kFolds);
}

Result<Report> validate_silicon(const SiliconValidation& options) {
  if (!options.file.empty()) return score_file(options);
  return cross_validate(options);
}

}  // namespace weir::plan
