#include "plan/silicon/validate_regret.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <vector>

#include "plan/silicon/silicon_model.h"
#include "plan/silicon/validate_silicon.h"

namespace weir::plan {
namespace {

constexpr std::size_t kFewestConfigurations = 8;
constexpr int kLevels = 9;
constexpr double kTarget = 0.97;

struct Choice {
  const SiliconRow* row = nullptr;
  double tpot_ms = 0, rate = 0;  // measured; rate: output tokens per second and device
  double predicted_tpot_ms = 0, predicted_rate = 0;
};

double rate_of(const SiliconRow& row, double ttft_ms, double tpot_ms) {
  return 1e3 * row.concurrency * row.output_tokens / (ttft_ms + row.output_tokens * tpot_ms) / row.devices();
}

// With all rows known, or each by the fit of the folds that it is not in.
std::vector<Choice> predicted(RowKind kind, bool measured) {
  std::vector<const SiliconRow*> rows;
  for (const SiliconRow* row : shared_silicon().used()) {
    if (row->kind() == kind) rows.push_back(row);
  }
  std::vector<Choice> out;
  const auto add = [&](const std::vector<const SiliconRow*>& held, const SiliconModel& tpot, const SiliconModel& ttft) {
    for (const SiliconRow* row : held) {
      const double tpot_ms = std::exp(tpot.log_ms(*row)), ttft_ms = std::exp(ttft.log_ms(*row));
      out.push_back(
          {row, row->tpot_ms, rate_of(*row, row->ttft_ms, row->tpot_ms), tpot_ms, rate_of(*row, ttft_ms, tpot_ms)});
    }
  };
  if (measured) {
    add(rows, shared_model(kind, Latency::kTpot), shared_model(kind, Latency::kTtft));
    return out;
  }
  for (int fold = 0; fold < kFolds; ++fold) {
    std::vector<const SiliconRow*> train, held;
    for (const SiliconRow* row : rows) (fold_of(row->configuration()) == fold ? held : train).push_back(row);
    if (train.empty()) continue;
    add(held, SiliconModel::fit(train, Latency::kTpot), SiliconModel::fit(train, Latency::kTtft));
  }
  return out;
}

std::optional<double> ratio_at(const std::vector<Choice>& choices, double level_ms) {
  const Choice* pick = nullptr;
  for (const Choice& c : choices) {
    if (c.predicted_tpot_ms <= level_ms && (pick == nullptr || c.predicted_rate > pick->predicted_rate)) pick = &c;
  }
  if (pick == nullptr) return std::nullopt;
  double best = pick->rate;
  for (const Choice& c : choices) {
    if (c.tpot_ms <= pick->tpot_ms) best = std::max(best, c.rate);
  }
  return pick->rate / best;
}

struct Tally {
  double sum = 0;
  int picks = 0, near = 0, good_groups = 0, groups = 0;
};

Tally tally(const char* title, bool measured, Report& report, nlohmann::ordered_json& json) {
  std::map<std::string, std::vector<Choice>> groups;
  for (const RowKind kind : {RowKind::kDense, RowKind::kMixture}) {
    for (Choice& choice : predicted(kind, measured)) {
      const SiliconRow& row = *choice.row;
      groups[fmt::format("{} {} {:g}/{:g}", row.model, row.system, row.input_tokens, row.output_tokens)].push_back(
          choice);
    }
  }
  report.text += fmt::format("{}\n{:<46} {:>5} {:>6} {:>8} {:>8}\n", title, "model, GPU, mean lengths", "conf.",
                             "levels", "mean %", "worst %");
  Tally all;
  for (auto& [name, choices] : groups) {
    if (choices.size() < kFewestConfigurations) continue;
    std::vector<double> tpots;
    for (const Choice& c : choices) tpots.push_back(c.tpot_ms);
    std::sort(tpots.begin(), tpots.end());
    double mean = 0, worst = 1;
    int levels = 0;
    for (int level = 1; level <= kLevels; ++level) {
      const auto at = static_cast<std::size_t>(level) * (tpots.size() - 1) / (kLevels + 1);
      const auto ratio = ratio_at(choices, tpots[at]);
      if (!ratio) continue;
      mean += *ratio;
      worst = std::min(worst, *ratio);
      ++levels;
      all.near += *ratio >= kTarget ? 1 : 0;
    }
    if (levels == 0) continue;
    all.sum += mean;
    all.picks += levels;
    mean /= levels;
    ++all.groups;
    all.good_groups += mean >= kTarget ? 1 : 0;
    report.text +=
        fmt::format("{:<46} {:>5} {:>6} {:>8.1f} {:>8.1f}\n", name, choices.size(), levels, 100 * mean, 100 * worst);
    json.push_back({{"group", name},
                    {"configurations", choices.size()},
                    {"levels", levels},
                    {"mean_percent", 100 * mean},
                    {"worst_percent", 100 * worst}});
  }
  return all;
}

nlohmann::ordered_json summary(const char* title, const Tally& all, Report& report) {
  const double mean = all.picks > 0 ? 100 * all.sum / all.picks : 0;
  const bool met = all.good_groups == all.groups;
  report.text += fmt::format(
      "{}: {} groups, {} picks: {:.2f} % of the best on the mean; {} picks reach 97 %; mean of the group reaches 97 % "
      "in {} groups; target, every group: {}\n",
      title, all.groups, all.picks, mean, all.near, all.good_groups, met ? "met" : "missed");
  return {{"picks", all.picks},
          {"mean_percent", mean},
          {"picks_within_3_percent", all.near},
          {"groups_count", all.groups},
          {"groups_within_3_percent", all.good_groups},
          {"met", met}};
}

}  // namespace

Result<Report> validate_regret() {
  constexpr const char* kMeasured = "with the group's measurements known";
  constexpr const char* kHeldOut = "each configuration predicted by the folds that it is not in";
  Report report;
  auto known = nlohmann::ordered_json::array(), unseen = nlohmann::ordered_json::array();
  const Tally measured = tally(kMeasured, true, report, known);
  report.text += '\n';
  const Tally held_out = tally(kHeldOut, false, report, unseen);
  report.text += '\n';
  report.json["measured"] = summary(kMeasured, measured, report);
  report.json["measured"]["groups"] = std::move(known);
  report.json["cross_validated"] = summary(kHeldOut, held_out, report);
  report.json["cross_validated"]["groups"] = std::move(unseen);
  return report;
}

}  // namespace weir::plan
