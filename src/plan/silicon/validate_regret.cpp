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

std::vector<Choice> predicted(RowKind kind) {
  std::vector<const SiliconRow*> rows;
  for (const SiliconRow* row : shared_silicon().used()) {
    if (row->kind() == kind) rows.push_back(row);
  }
  std::vector<Choice> out;
  for (int fold = 0; fold < kFolds; ++fold) {
    std::vector<const SiliconRow*> train, held;
    for (const SiliconRow* row : rows) (fold_of(row->configuration()) == fold ? held : train).push_back(row);
    if (train.empty()) continue;
    const auto tpot = SiliconModel::fit(train, Latency::kTpot), ttft = SiliconModel::fit(train, Latency::kTtft);
    for (const SiliconRow* row : held) {
      const double tpot_ms = std::exp(tpot.log_ms(*row)), ttft_ms = std::exp(ttft.log_ms(*row));
      out.push_back(
          {row, row->tpot_ms, rate_of(*row, row->ttft_ms, row->tpot_ms), tpot_ms, rate_of(*row, ttft_ms, tpot_ms)});
    }
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

}  // namespace

Result<Report> validate_regret() {
  std::map<std::string, std::vector<Choice>> groups;
  for (const RowKind kind : {RowKind::kDense, RowKind::kMixture}) {
    for (Choice& choice : predicted(kind)) {
      const SiliconRow& row = *choice.row;
      groups[fmt::format("{} {} {:g}/{:g}", row.model, row.system, row.input_tokens, row.output_tokens)].push_back(
          choice);
    }
  }
  Report report;
  report.text = fmt::format("{:<46} {:>5} {:>6} {:>8} {:>8}\n", "model, GPU, mean lengths", "conf.", "levels", "mean %",
                            "worst %");
  auto json = nlohmann::ordered_json::array();
  double sum = 0;
  int picks = 0, near = 0, good_groups = 0, all_groups = 0;
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
      near += *ratio >= kTarget ? 1 : 0;
    }
    if (levels == 0) continue;
    sum += mean;
    picks += levels;
    mean /= levels;
    ++all_groups;
    good_groups += mean >= kTarget ? 1 : 0;
    report.text +=
        fmt::format("{:<46} {:>5} {:>6} {:>8.1f} {:>8.1f}\n", name, choices.size(), levels, 100 * mean, 100 * worst);
    json.push_back({{"group", name},
                    {"configurations", choices.size()},
                    {"levels", levels},
                    {"mean_percent", 100 * mean},
                    {"worst_percent", 100 * worst}});
  }
  const double mean = picks > 0 ? 100 * sum / picks : 0;
  report.text += fmt::format(
      "all {} groups, {} picks: {:.2f} % of the best on the mean; {} picks reach 97 %; mean of the group reaches 97 % "
      "in "
      "{} groups\ntarget: 97 % of the best over every group: {}\n",
      all_groups, picks, mean, near, good_groups, good_groups == all_groups ? "met" : "missed");
  report.json = {{"groups", std::move(json)},
                 {"picks", picks},
                 {"mean_percent", mean},
                 {"picks_within_3_percent", near},
                 {"groups_count", all_groups},
                 {"groups_within_3_percent", good_groups},
                 {"met", good_groups == all_groups}};
  return report;
}

}  // namespace weir::plan
