#include "plan/speculation.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "plan/csv.h"
#include "plan/memory.h"
#include "plan/roofline.h"

namespace weir::plan {
namespace {

constexpr std::size_t kMaxPoints = 1000, kMaxBatches = 50;
constexpr int kMaxDrafts = 64;

StepShape verify_shape(std::int64_t sequences, std::int64_t rows, std::int64_t context) {
  if (rows == 1) return decode_shape(sequences, context);
  StepShape one;
  one.add(context - 1, context - 1 + rows, true);
  one.samples = rows;
  StepShape shape;
  const auto count = static_cast<double>(sequences);
  shape.sequences = sequences;
  shape.tokens = sequences * rows;
  shape.samples = sequences * rows;
  shape.attended = count * one.attended;
  shape.context_read = count * one.context_read;
  return shape;
}

Status check(const SpecQuery& query) {
  if (query.acceptance.empty() || query.acceptance.size() > kMaxDrafts) {
    return fail(ErrorCode::kInvalidArgument, "acceptance: {} numbers; 1 to {} probabilities from 0 to 1 expected",
                query.acceptance.size(), kMaxDrafts);
  }
  const auto wrong = std::ranges::find_if_not(query.acceptance, [](double a) { return a >= 0 && a <= 1; });
  if (wrong != query.acceptance.end()) {
    return fail(ErrorCode::kInvalidArgument, "acceptance of draft {} is {:g}; a probability from 0 to 1 expected",
                wrong - query.acceptance.begin() + 1, *wrong);
  }
  if (query.batches.empty() || query.batches.size() > kMaxBatches ||
      !std::ranges::all_of(query.batches, [](std::int64_t b) { return b >= 1 && b <= 1 << 20; })) {
    return fail(ErrorCode::kInvalidArgument, "{} batches; 1 to {} numbers from 1 to 1048576 expected",
                query.batches.size(), kMaxBatches);
  }
  if (query.context < 1 || query.context > 1 << 24 || query.most_drafts < 1 || query.most_drafts > kMaxDrafts ||
      !(query.draft_share >= 0 && query.draft_share <= 1000)) {
    return fail(ErrorCode::kInvalidArgument,
                "context {}, at most {} drafts, draft share {}: 1 to {} tokens, 1 to {} drafts, a share from 0 to 1000 "
                "expected",
                query.context, query.most_drafts, query.draft_share, 1 << 24, kMaxDrafts);
  }
  return {};
}

// The costs of one batch. `target` and `draft` are null where pass times are given.
class Costs {
 public:
  Costs(const SpecQuery& query, const Subject* target, const ModelCard* draft, const PassTimes* times)
      : query_(query), target_(target), draft_(draft), times_(times) {}

  SpeculationCosts of(std::int64_t batch) const {
    SpeculationCosts costs;
    costs.pass_s = [this, batch](std::int64_t rows) {
      if (times_ != nullptr) return times_->seconds(static_cast<double>(batch * rows));
      return RooflineStep(target_->card, target_->hardware, options(target_->types))
          .step_s(verify_shape(batch, rows, query_.context));
    };
    costs.draft_s = [this, batch, pass = costs.pass_s](int drafts) {
      if (drafts == 0) return 0.0;
      const double passes = query_.draft_at_once ? 1 : drafts;
      if (draft_ == nullptr) return passes * query_.draft_share * pass(1);
      const RooflineStep model(*draft_, target_->hardware, options(draft_->types));
      return passes * model.step_s(verify_shape(batch, query_.draft_at_once ? drafts : 1, query_.context));
    };
    return costs;
  }

 private:
  OperatorOptions options(const WeightTypes& types) const {
    return {.layout = target_->layout, .types = types, .kv_bits = target_->kv_bits};
  }

  const SpecQuery& query_;
  const Subject* target_;
  const ModelCard* draft_;
  const PassTimes* times_;
};

}  // namespace

double tokens_per_pass(const std::vector<double>& acceptance, int drafts) {
  double tokens = 1, survival = 1;
  for (int k = 0; k < drafts; ++k) {
    survival *= acceptance[std::min(static_cast<std::size_t>(k), acceptance.size() - 1)];
    tokens += survival;
  }
  return tokens;
}

std::vector<DraftChoice> draft_choices(const std::vector<double>& acceptance, const SpeculationCosts& costs, int most) {
  std::vector<DraftChoice> choices;
  for (int drafts = 0; drafts <= most; ++drafts) {
    DraftChoice choice{.drafts = drafts, .tokens = tokens_per_pass(acceptance, drafts)};
    choice.pass_s = costs.pass_s(drafts + 1) + costs.draft_s(drafts);
    choice.speed_up = drafts == 0 ? 1 : choice.tokens * choices[0].pass_s / choice.pass_s;
    choices.push_back(choice);
  }
  return choices;
}

DraftChoice best_draft(const std::vector<DraftChoice>& choices) {
  // Of equals the shortest.
  return *std::ranges::max_element(choices, {}, &DraftChoice::speed_up);
}

double break_even_acceptance(const SpeculationCosts& costs) {
  return (costs.pass_s(2) + costs.draft_s(1)) / costs.pass_s(1) - 1;
}

double PassTimes::seconds(double rows) const {
  std::size_t next = 1;
  while (next + 1 < points.size() && points[next].first < rows) ++next;
  const auto& [x0, y0] = points[next - 1];
  const auto& [x1, y1] = points[next];
  if (rows <= points.front().first) return points.front().second;
  return std::max(points.front().second * 1e-3, y0 + (rows - x0) * (y1 - y0) / (x1 - x0));
}

Result<PassTimes> parse_pass_times(const std::string& text) {
  PassTimes times;
  for (std::size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find(',', at), text.size());
    const std::string part = text.substr(at, end - at);
    at = end + 1;
    const auto colon = std::min(part.find(':'), part.size());
    const auto rows = parse_number(part.substr(0, colon), "rows");
    const auto ms = parse_number(colon < part.size() ? part.substr(colon + 1) : "", "milliseconds");
    if (!rows || !ms || *rows < 1 || *rows > 1e9 || *ms <= 0 || *ms > 1e9 ||
        (!times.points.empty() && *rows <= times.points.back().first) || times.points.size() == kMaxPoints) {
      return fail(ErrorCode::kInvalidArgument,
                  "pass times: \"{}\" is not ROWS:MILLISECONDS with rising rows from 1 on and positive times (at most "
                  "{} of them)",
                  part.substr(0, 60), kMaxPoints);
    }
    times.points.emplace_back(*rows, *ms / 1000);
  }
  if (times.points.size() < 2)
    return fail(ErrorCode::kInvalidArgument, "pass times: {} points; at least two ROWS:MILLISECONDS expected",
                times.points.size());
  return times;
}

Result<Report> spec_report(const SpecQuery& query) {
  WEIR_RETURN_IF_ERROR(check(query));
  PassTimes times;
  const bool measured = !query.pass_times.empty();
  if (measured) {
    WEIR_TRY(times, parse_pass_times(query.pass_times));
    if (!query.draft.empty())
      return fail(ErrorCode::kInvalidArgument,
                  "with pass times a draft's cost is given as a share of them, not as a model");
  }
  Subject subject;
  ModelCard draft;
  if (!measured) {
    if (query.subject.model.empty())
      return fail_at("model", ErrorCode::kInvalidArgument, "speculation needs a model and hardware, or --pass-ms");
    WEIR_TRY(subject, read_subject(query.subject));
    if (subject.hardware.name.empty())
      return fail_at("hardware", ErrorCode::kInvalidArgument, "speculation needs hardware too, or --pass-ms");
    WEIR_RETURN_IF_ERROR(check_layout(subject.card, subject.layout));
    WEIR_RETURN_IF_ERROR(check_links(subject.hardware, subject.layout));
    if (!query.draft.empty()) {
      WEIR_TRY(draft, read_model_card(query.draft));
      WEIR_RETURN_IF_ERROR(check_layout(draft, subject.layout));
    }
  }
  const Costs costs(query, measured ? nullptr : &subject, query.draft.empty() ? nullptr : &draft,
                    measured ? &times : nullptr);
  Report report;
  auto& json = report.json;
  json["target"] = measured ? "pass times given" : subject.card.name;
  if (!measured) {
    json["hardware"] = subject.hardware.name;
    json["layout"] = subject.layout.name();
    json["context"] = query.context;
  }
  json["draft"] = query.draft.empty() ? fmt::format("{:g} of a pass", query.draft_share) : draft.name;
  json["acceptance"] = query.acceptance;
  report.text = fmt::format(
      "{}{}; drafts by {}{}\n", measured ? "pass times given" : subject.card.name,
      measured ? ""
               : fmt::format(" on {} ({}), contexts of {} tokens", subject.hardware.name, subject.layout.name(),
                             query.context),
      query.draft.empty() ? fmt::format("something that costs {:g} of a pass a token", query.draft_share) : draft.name,
      query.draft_at_once ? ", all at once" : "");
  report.text += "tokens per pass:";
  for (int drafts = 0; drafts <= query.most_drafts; ++drafts) {
    const double tokens = tokens_per_pass(query.acceptance, drafts);
    json["tokens_per_pass"].push_back(tokens);
    report.text += fmt::format(" K={} {:.3f}{}", drafts, tokens, drafts < query.most_drafts ? "," : "\n");
  }
  report.text +=
      fmt::format("\n{:>7} {:>12} {:>11}   speed-up by drafted tokens\n{:>32}", "batch", "one pass", "best drafts", "");
  for (int drafts = 1; drafts <= query.most_drafts; ++drafts) report.text += fmt::format(" {:>6}", drafts);
  report.text += "   pays if accepted above\n";
  for (const std::int64_t batch : query.batches) {
    const SpeculationCosts of_batch = costs.of(batch);
    const auto choices = draft_choices(query.acceptance, of_batch, query.most_drafts);
    const DraftChoice best = best_draft(choices);
    const double least = break_even_acceptance(of_batch);
    nlohmann::ordered_json row = {{"batch", batch},
                                  {"pass_s", choices[0].pass_s},
                                  {"best_drafts", best.drafts},
                                  {"best_speed_up", best.speed_up},
                                  {"break_even_acceptance", least}};
    report.text +=
        fmt::format("{:>7} {:>12} {:>4} ({:.2f}x)", batch, seconds_text(choices[0].pass_s), best.drafts, best.speed_up);
    for (const DraftChoice& choice : choices) {
      row["choices"].push_back({{"drafts", choice.drafts},
                                {"tokens", choice.tokens},
                                {"pass_s", choice.pass_s},
                                {"speed_up", choice.speed_up},
                                {"tokens_per_s", static_cast<double>(batch) * choice.tokens / choice.pass_s}});
      if (choice.drafts > 0) report.text += fmt::format(" {:>6.2f}", choice.speed_up);
    }
    json["batches"].push_back(row);
    report.text += fmt::format("   {:.3f}\n", least);
  }
  if (!measured)
    report.text += "times are bounds of data sheets (weir plan roofline); their ratios are what counts here\n";
  return report;
}

}  // namespace weir::plan
