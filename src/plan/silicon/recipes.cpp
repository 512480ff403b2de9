#include "plan/silicon/recipes.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string_view>

#include "base/check.h"
#include "plan/csv.h"
#include "plan/data.h"

namespace weir::plan {
namespace {

struct Line {
  RecipeQuery query;  // without a concurrency
  std::vector<double> concurrencies;
  std::vector<double> batches;  // of an attention group, one per concurrency; empty: not known
  Recipe recipe;                // without most_decoding
};

std::vector<double> numbers_in(std::string_view text) {
  std::vector<double> out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    if (end > at) out.push_back(std::strtod(std::string(text.substr(at, end - at)).c_str(), nullptr));
    at = end + 1;
  }
  return out;
}

// A worker of `tp` devices: its attention is cut by heads, or each device has sequences of its own.
ParallelLayout worker(int tp, int ep, bool by_sequences) {
  ParallelLayout layout;
  layout.tp = by_sequences ? 1 : tp;
  layout.dp = by_sequences ? tp : 1;
  layout.ep = ep;
  return layout;
}

std::vector<Line> read_lines() {
  const auto csv = Csv::parse(data_file("silicon_recipes.csv"), "silicon_recipes.csv");
  CHECK(csv.has_value());
  const auto cell = [&](std::size_t row, const char* column) {
    const auto value = csv->number(row, column, 0);
    CHECK(value.has_value() && *value >= 0);
    return *value;
  };
  const auto degree = [&](std::size_t row, const char* column) { return static_cast<int>(cell(row, column)); };
  std::vector<Line> lines;
  for (std::size_t i = 0; i < csv->rows(); ++i) {
    Line line;
    RecipeQuery& query = line.query;
    query.backend = csv->at(i, "backend");
    query.system = csv->at(i, "system");
    query.model = csv->at(i, "model");
    query.precision = csv->at(i, "precision");
    query.input = cell(i, "isl");
    query.output = cell(i, "osl");
    query.prefill_tp = degree(i, "prefill_tp");
    query.prefill_ep = degree(i, "prefill_ep");
    query.decode_tp = degree(i, "decode_tp");
    line.concurrencies = numbers_in(csv->at(i, "concurrencies"));
    line.batches = numbers_in(csv->at(i, "batches"));
    CHECK(line.batches.empty() || line.batches.size() == line.concurrencies.size());
    line.recipe.prefill = worker(query.prefill_tp, query.prefill_ep, cell(i, "prefill_dp") > 0);
    line.recipe.decode = worker(query.decode_tp, degree(i, "decode_ep"), cell(i, "decode_dp") > 0);
    line.recipe.prefill_workers = cell(i, "prefill_workers");
    line.recipe.decode_workers = cell(i, "decode_workers");
    line.recipe.drafts = cell(i, "drafts");
    lines.push_back(std::move(line));
  }
  return lines;
}

bool same_deployment(const RecipeQuery& a, const RecipeQuery& b) {
  return a.backend == b.backend && a.system == b.system && a.model == b.model && a.precision == b.precision &&
         a.input == b.input && a.output == b.output && a.prefill_tp == b.prefill_tp && a.decode_tp == b.decode_tp;
}

}  // namespace

std::vector<Recipe> recipes_of(const RecipeQuery& query) {
  static const std::vector<Line> lines = read_lines();
  std::vector<Recipe> exact, near;
  for (const Line& line : lines) {
    if (!same_deployment(line.query, query)) continue;
    const auto& listed = line.concurrencies;
    const auto found = std::find(listed.begin(), listed.end(), query.concurrency);
    if (found == listed.end()) continue;
    if (line.recipe.prefill.ep != query.prefill_ep && line.recipe.decode.ep != query.prefill_ep) continue;
    auto& out = line.recipe.prefill.ep == query.prefill_ep ? exact : near;
    Recipe recipe = line.recipe;
    if (!line.batches.empty())
      recipe.most_decoding = line.batches[static_cast<std::size_t>(found - listed.begin())] * recipe.decode.dp;
    if (std::find(out.begin(), out.end(), recipe) == out.end()) out.push_back(recipe);
  }
  return exact.empty() ? near : exact;
}

}  // namespace weir::plan
