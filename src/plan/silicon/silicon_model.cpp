#include "plan/silicon/silicon_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <mutex>

#include "base/check.h"
#include "plan/data.h"

namespace weir::plan {
namespace {

// Where coefficients start: what a roofline would take for plausible before it saw a row (80 % of bandwidth, the peak's
// measured share, 20 us per layer, 5 us per exchange: op_collectives.csv has 4.5 to 8 us for small sums of 2 to 8
// devices). The priors' widths are of log coefficients, per kind: memory, latency, arithmetic, exchanges. Widths and
// scales were chosen among some thirty settings by the left-out errors of the shared table (docs/planning/step.md); the
// coefficients are then fitted.
constexpr std::array<double, kTerms> kStart = {1.3, 1.5, 1.5, 2, 2, 0.5, 1, 1, 5, 1, 2, 1, 1.5, 1.5, 3, 1.5, 2, 0.3};
constexpr std::array<double, kTermKinds> kDenseSd = {0.04, 0.08, 0.045, 0.1}, kMixtureSd = {0.32, 0.64, 0.36, 0.8};
constexpr std::array<double, kTermKinds> kTtftSd = {0.3, 0.5, 0.4, 0.4};
constexpr double kTpotBaseScale = 4, kTtftBaseScale = 2;
// Levels: backend, system, bits, model, deployment, deployment + version, tokens drafted; of TTFT also backend + load
// generator.
const std::vector<HierarchyPrior::Level> kTpotLevels = {{0.3, true}, {0.3, true},  {0.7, true}, {0.8, false},
                                                        {1, false},  {1.5, false}, {0.5, false}};
const std::vector<HierarchyPrior::Level> kTtftLevels = {{1, true},    {0.7, true},  {0.7, true},  {0.8, false},
                                                        {0.6, false}, {0.8, false}, {0.5, false}, {1, false}};
constexpr double kTpotNoise = 0.06, kTtftNoise = 0.12;
const std::vector<double> kTpotOffsetSd = {0.1, 0.1, 0.05, 0.05, 0.03}, kTtftOffsetSd = {0.2, 0.2, 0.15, 0.15, 0.05};
// Of what neighbours have in common and of a row alone; per kind of row.
constexpr std::array<double, 3> kTpotNearSd = {0.15, 0.15, 0.4}, kTtftNearSd = {0.3, 0.3, 0.6};
constexpr double kTpotNearNoise = 0.05, kTtftNearNoise = 0.1;
constexpr double kTpotOffsetNoise = 0.05, kTtftOffsetNoise = 0.12;

constexpr std::array<double, kTtftTerms> kTtftStart = {1, 0.05, 0.05, 0.1, 1, 20, 0.3, 0.7};
constexpr std::array<int, kTtftTerms> kTtftKind = {2, 2, 2, 2, 1, 1, 1, 0};
constexpr double kLeastRepeatNoise = 0.01;  // of a measurement: where no configuration was measured twice
constexpr double kBurst = 8;                // prompts: a handful that happen to come together
// Of drafted tokens each is taken with this probability if all before it were: where the fit starts from.
constexpr double kAcceptance = 0.7;
constexpr int kFeedRounds = 25;

std::string bits_key(const StepBits& bits) {
  return fmt::format("{:g}/{:g}", bits.linear, bits.experts);
}

std::string deployment(const SiliconRow& row) {
  return fmt::format("{}|{}|{}|{}|{}", row.model, row.system, row.backend, row.version, bits_key(row.bits));
}

std::vector<std::string> offset_keys(const SiliconRow& row) {
  const std::string base = deployment(row), layout = row.layout_name();
  const std::string lengths = fmt::format("{:g}>{:g}", row.input_tokens, row.output_tokens);
  return {base, base + "#" + layout, base + "#" + lengths, base + "#" + layout + "#" + lengths,
          fmt::format("{}#{}#{:g}", base, layout, row.concurrency)};
}

std::string measured_key(const SiliconRow& row) {
  return fmt::format("{}|{}|{}", row.configuration(), row.layout_name(), row.version);
}

// How far apart (in logarithms) two rows of one block may be and still tell of each other.
constexpr double kNearLoad = 1, kNearLengths = 1.5, kNearLayout = 1, kNearExperts = 2;
constexpr double kVersionDistance = 0.5;  // between any two versions, at least
constexpr double kDraftDistance = 1;      // of a drafted token more

NeighbourPoint neighbour_point(const SiliconRow& row) {
  NeighbourPoint point;
  point.block = fmt::format("{}|{}|{}|{}", row.model, row.system, row.backend, bits_key(row.bits));
  double version = 0;
  for (const char c : row.version) version = std::fmod(version * 31 + static_cast<unsigned char>(c), 1009);
  point.at = {std::log(row.concurrency) / kNearLoad,
              std::log(row.input_tokens) / kNearLengths,
              std::log(row.output_tokens) / kNearLengths,
              std::log(row.layout.devices()) / kNearLayout,
              std::log(row.layout.dp) / kNearLayout,
              std::log(row.layout.ep) / kNearExperts,
              std::log(row.prefill_layout.devices()) / kNearLayout,
              std::log(row.decode_workers) / kNearLayout,
              std::log(row.prefill_workers) / kNearLayout,
              std::log(row.prefill_layout.dp) / kNearLayout,
              row.drafts * kDraftDistance,
              version * kVersionDistance};
  return point;
}

double weighed(const StepTerms& terms) {
  double sum = 0;
  for (std::size_t i = 0; i < terms.size(); ++i) sum += kStart[i] * terms[i];
  return sum;
}

StepLoad prompt_load(const SiliconRow& row) {
  StepLoad load;
  load.prompts = 1;
  load.prompt_tokens = row.input_tokens;
  load.prompt_pairs = 0.5 * row.input_tokens * row.input_tokens;
  return load;
}

// One prompt alone on the devices that prefill, by the start coefficients.
double prompt_ms(const SiliconRow& row) {
  const StepTerms terms = step_terms(row.facts, row.hardware, row.prefill_layout, row.bits, prompt_load(row));
  double sum = 0;
  for (int term = 0; term < kTerms; ++term) {
    const auto i = static_cast<std::size_t>(term);
    if (is_prefill_term(term)) sum += kStart[i] * terms[i];
  }
  return sum;
}

// Sequences that one decoding worker can have at once.
double decode_room(const SiliconRow& row) {
  const double room = kv_capacity(row.facts, row.hardware, row.layout, row.bits, row.input_tokens + row.output_tokens);
  return row.most_decoding > 0 ? std::min(room, row.most_decoding) : room;
}

std::vector<double> ttft_terms(const SiliconRow& row) {
  const double prompt = prompt_ms(row), requests = row.concurrency / row.prefill_workers;
  const StepTerms steady = tpot_terms(row);
  double step = 0;
  for (int term = 0; term < kTerms; ++term) {
    const auto i = static_cast<std::size_t>(term);
    if (!is_prefill_term(term)) step += kStart[i] * steady[i];
  }
  const double room = decode_room(row);
  const double waiting = std::max(0.0, row.concurrency / row.decode_workers - room) / room;
  return {prompt,
          prompt * requests / row.prefill_layout.dp,
          prompt * std::min(requests, kBurst),
          prompt * std::sqrt(requests),
          step,
          1,
          row.concurrency,
          waiting * row.output_tokens * weighed(steady)};
}

HierarchyRow hierarchy_row(const SiliconRow& row, Latency latency) {
  HierarchyRow out;
  out.groups = tpot_groups(row.model, row.system, row.backend, row.version, row.bits);
  out.groups.push_back(row.drafts < 0 ? "unknown drafts" : fmt::format("{:g} drafts", row.drafts));
  if (latency == Latency::kTpot) {
    const StepTerms terms = tpot_terms(row);
    out.terms.assign(terms.begin(), terms.end());
    out.log_y = std::log(row.tpot_ms);
  } else {
    out.groups.push_back(row.backend + (row.fixed_lengths ? "|fixed" : "|random"));
    out.terms = ttft_terms(row);
    out.log_y = std::log(row.ttft_ms);
  }
  return out;
}

HierarchyPrior prior_of(Latency latency, RowKind kind) {
  HierarchyPrior prior;
  if (latency == Latency::kTpot) {
    prior.start.assign(kStart.begin(), kStart.end());
    for (int term = 0; term < kTerms; ++term) prior.kind.push_back(term_kind(term));
    const auto& sd = kind == RowKind::kDense ? kDenseSd : kMixtureSd;
    prior.kind_sd.assign(sd.begin(), sd.end());
    prior.base_scale = kTpotBaseScale;
    prior.noise = kTpotNoise;
    prior.levels = kTpotLevels;
  } else {
    prior.start.assign(kTtftStart.begin(), kTtftStart.end());
    prior.kind.assign(kTtftKind.begin(), kTtftKind.end());
    prior.kind_sd.assign(kTtftSd.begin(), kTtftSd.end());
    prior.base_scale = kTtftBaseScale;
    prior.noise = kTtftNoise;
    prior.levels = kTtftLevels;
  }
  return prior;
}

}  // namespace

std::vector<std::string> tpot_groups(const std::string& model, const std::string& system, const std::string& backend,
                                     const std::string& version, const StepBits& bits) {
  const std::string key = bits_key(bits), base = fmt::format("{}|{}|{}|{}", model, system, backend, key);
  return {backend, system, key, model, base, base + "|" + version};
}

std::vector<std::string> measured_groups(const std::string& model, const Hardware& hardware, const std::string& backend,
                                         const StepBits& bits) {
  // By hardware the table's name of it; by hardware, model and backend the newest version.
  struct Measured {
    std::map<std::string, std::string> systems;
    std::map<std::array<std::string, 3>, std::string> versions;
  };
  static const Measured measured = [] {
    Measured all;
    for (const SiliconRow* row : shared_silicon().used()) {
      all.systems[row->hardware.name] = row->system;
      std::string& version = all.versions[{row->hardware.name, row->model, row->backend}];
      version = std::max(version, row->version);
    }
    return all;
  }();
  const std::string key = silicon_model_key(model);
  const auto system = measured.systems.find(hardware.name);
  const auto version = measured.versions.find({hardware.name, key, backend});
  return tpot_groups(key, system == measured.systems.end() ? hardware.name : system->second, backend,
                     version == measured.versions.end() ? "" : version->second, bits);
}

namespace {

// Of the decoding alone.
StepLoad decode_load(const SiliconRow& row, double running) {
  StepLoad load;
  load.sequences = running;
  load.context = row.input_tokens + row.output_tokens / 2;
  load.rows_per_sequence = 1 + std::max(0.0, row.drafts);
  return load;
}

StepTerms tpot_terms_of(const SiliconRow& row, double running) {
  StepLoad load = decode_load(row, running);
  if (!row.disaggregated) {
    load.prompts = load.sequences / row.output_tokens;
    load.prompt_tokens = load.prompts * row.input_tokens;
    load.prompt_pairs = load.prompts * 0.5 * row.input_tokens * row.input_tokens;
  }
  StepTerms terms = step_terms(row.facts, row.hardware, row.layout, row.bits, load);
  const double taken = (1 - std::pow(kAcceptance, load.rows_per_sequence)) / (1 - kAcceptance);  // tokens of a pass
  for (double& term : terms) term /= taken;
  return terms;
}

// Requests per worker that decode at once where prompts are computed elsewhere: of all under way some are prompts
// still, and no more leave the prompts' workers than those can compute. By the start coefficients; the fixed point of
// running = rate x time to decode.
double fed_requests(const SiliconRow& row, double most) {
  const double prompt = prompt_ms(row), fastest = row.prefill_workers / prompt;
  double running = most;
  for (int round = 0; round < kFeedRounds; ++round) {
    const double decoding = row.output_tokens * weighed(tpot_terms_of(row, running));
    const double rate = std::min(fastest, row.concurrency / (prompt + decoding));
    running = std::clamp(0.5 * (running + rate * decoding / row.decode_workers), 1.0, most);
  }
  return running;
}

}  // namespace

double running_requests(const SiliconRow& row) {
  const double most = std::max(1.0, std::min(row.concurrency / row.decode_workers, decode_room(row)));
  return row.disaggregated ? fed_requests(row, most) : most;
}

StepTerms tpot_terms(const SiliconRow& row) {
  return tpot_terms_of(row, running_requests(row));
}

double floor_ms(const SiliconRow& row, Latency latency) {
  double floor = 0;
  if (latency == Latency::kTpot) {
    // Stages of a pipeline work on parts of the batch side by side; all drafts may be taken.
    const StepLoad load = decode_load(row, std::max(1.0, running_requests(row) / row.layout.pp));
    step_terms(row.facts, row.hardware, row.layout, row.bits, load, &floor);
    return floor / load.rows_per_sequence;
  }
  step_terms(row.facts, row.hardware, row.prefill_layout, row.bits, prompt_load(row), &floor);
  return floor / row.prefill_layout.pp;  // parts of a prompt may be in all stages at once
}

namespace {

Hierarchy fit_terms(std::span<const SiliconRow* const> rows, Latency latency) {
  std::vector<HierarchyRow> data;
  data.reserve(rows.size());
  for (const SiliconRow* row : rows) data.push_back(hierarchy_row(*row, latency));
  std::vector<const HierarchyRow*> pointers;
  for (const HierarchyRow& row : data) pointers.push_back(&row);
  return Hierarchy::fit(pointers, prior_of(latency, rows.front()->kind()));
}

// Rows that fit several recipes ran one of them: the one whose TPOT a fit of all other rows puts nearest to theirs.
// Only for rows that are learned from.
std::vector<SiliconRow> resolve(std::span<const SiliconRow* const> rows) {
  std::vector<const SiliconRow*> sure;
  for (const SiliconRow* row : rows) {
    if (row->choices.empty()) sure.push_back(row);
  }
  std::vector<SiliconRow> out;
  if (sure.size() == rows.size()) return out;
  const Hierarchy terms = fit_terms(sure.empty() ? rows : std::span<const SiliconRow* const>(sure), Latency::kTpot);
  for (const SiliconRow* row : rows) {
    if (row->choices.empty()) continue;
    std::optional<SiliconRow> best;
    double nearest = 0;
    for (const Recipe& recipe : row->choices) {
      SiliconRow candidate = row->with(recipe);
      const double distance =
          std::abs(std::log(row->tpot_ms) - terms.log_mean(hierarchy_row(candidate, Latency::kTpot)));
      if (!best || distance < nearest) best = std::move(candidate), nearest = distance;
    }
    out.push_back(*std::move(best));
  }
  return out;
}

// What to say of equally likely values, so that the expected relative error is the least: the median, each weighed by
// one over itself.
double least_relative_error(std::vector<double> logs) {
  std::sort(logs.begin(), logs.end());
  double sum = 0, below = 0;
  for (const double value : logs) sum += std::exp(-value);
  for (const double value : logs) {
    below += std::exp(-value);
    if (below >= sum / 2) return value;
  }
  return logs.back();
}

}  // namespace

void Repeats::fit(const std::vector<std::string>& configurations, const std::vector<double>& residuals) {
  std::map<std::string, std::vector<double>> groups;
  for (std::size_t i = 0; i < configurations.size(); ++i) groups[configurations[i]].push_back(residuals[i]);
  // Medians, so that a faulty repeat does not decide; 0.675 of a deviation is the median of a normal's size.
  std::vector<double> apart, sizes;
  for (const auto& [name, members] : groups) {
    for (std::size_t i = 1; i < members.size(); ++i)
      apart.push_back(std::abs(members[i] - members[i - 1]) / std::sqrt(2.0));
    for (const double value : members) sizes.push_back(std::abs(value));
  }
  const auto median = [](std::vector<double>& values, double otherwise) {
    if (values.empty()) return otherwise;
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
  };
  noise_ = std::max(kLeastRepeatNoise, median(apart, kLeastRepeatNoise) / 0.675);
  const double size = std::max(noise_, median(sizes, noise_) / 0.675);
  for (const auto& [name, members] : groups) {
    double sum = 0;
    for (const double value : members) sum += value;
    // Residuals have heavy tails: the prior is as wide as the mean where that is far out.
    const auto n = static_cast<double>(members.size());
    const double width = std::max(size, std::abs(sum / n));
    offsets_[name] = sum / (n + noise_ * noise_ / (width * width));
  }
}

double Repeats::at(const std::string& configuration) const {
  const auto found = offsets_.find(configuration);
  return found == offsets_.end() ? 0 : found->second;
}

SiliconModel SiliconModel::fit(std::span<const SiliconRow* const> given, Latency latency) {
  CHECK(!given.empty());
  SiliconModel model;
  model.latency_ = latency;
  const std::vector<SiliconRow> resolved = resolve(given);
  std::vector<const SiliconRow*> rows;
  for (const SiliconRow* row : given) {
    if (row->choices.empty()) rows.push_back(row);
  }
  for (const SiliconRow& row : resolved) rows.push_back(&row);
  std::vector<HierarchyRow> data;
  data.reserve(rows.size());
  for (const SiliconRow* row : rows) {
    data.push_back(hierarchy_row(*row, latency));
    ++model.rows_of_[deployment(*row)];
  }
  std::vector<const HierarchyRow*> pointers;
  for (const HierarchyRow& row : data) pointers.push_back(&row);
  model.terms_ = Hierarchy::fit(pointers, prior_of(latency, rows[0]->kind()));
  std::vector<std::vector<std::string>> keys;
  std::vector<double> residuals;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    keys.push_back(offset_keys(*rows[i]));
    residuals.push_back(data[i].log_y - model.terms_.log_mean(data[i]));
  }
  const bool tpot = latency == Latency::kTpot;
  model.offsets_.fit(keys, residuals, tpot ? kTpotOffsetSd : kTtftOffsetSd, tpot ? kTpotOffsetNoise : kTtftOffsetNoise);
  std::vector<NeighbourPoint> points;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    points.push_back(neighbour_point(*rows[i]));
    residuals[i] -= model.offsets_.at(keys[i]);
  }
  const auto kind = static_cast<std::size_t>(rows.front()->kind());
  model.neighbours_.fit(points, residuals, tpot ? kTpotNearSd[kind] : kTtftNearSd[kind],
                        tpot ? kTpotNearNoise : kTtftNearNoise);
  std::vector<std::string> configurations;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    configurations.push_back(measured_key(*rows[i]));
    residuals[i] -= model.neighbours_.at(points[i]);
  }
  model.repeats_.fit(configurations, residuals);
  return model;
}

double SiliconModel::log_ms(const SiliconRow& row) const {
  if (!row.choices.empty()) {
    std::vector<double> logs;
    for (const Recipe& recipe : row.choices) logs.push_back(log_ms(row.with(recipe)));
    return least_relative_error(std::move(logs));
  }
  return terms_.log_mean(hierarchy_row(row, latency_)) + offsets_.at(offset_keys(row)) +
         neighbours_.at(neighbour_point(row)) + repeats_.at(measured_key(row));
}

Support SiliconModel::support(const SiliconRow& row) const {
  if (!row.choices.empty()) return Support::kOpen;
  const auto found = rows_of_.find(deployment(row));
  if (found == rows_of_.end()) return Support::kNone;
  return found->second >= kManyRows ? Support::kMany : Support::kFew;
}

const SiliconTable& shared_silicon() {
  static const SiliconTable table = [] {
    auto read = read_silicon(data_file("silicon.csv"), "silicon.csv");
    CHECK(read.has_value());
    return *std::move(read);
  }();
  return table;
}

RowKind fit_kind(const SiliconRow& row, Latency latency) {
  return latency == Latency::kTpot && row.facts.dense() ? RowKind::kDense : row.kind();
}

const SiliconModel& shared_model(RowKind kind, Latency latency) {
  struct Slot {
    std::once_flag once;
    std::optional<SiliconModel> model;
  };
  static std::array<std::array<Slot, 2>, 3> slots;
  Slot& slot = slots[static_cast<std::size_t>(kind)][static_cast<std::size_t>(latency)];
  std::call_once(slot.once, [&] {
    std::vector<const SiliconRow*> rows;
    for (const SiliconRow* row : shared_silicon().used()) {
      if (row->kind() == kind && fit_kind(*row, latency) == kind) rows.push_back(row);
    }
    slot.model = SiliconModel::fit(rows, latency);
  });
  return *slot.model;
}

}  // namespace weir::plan
