// Recipes: what InferenceX's published configurations say of disaggregated deployments and the table of measured rows
// leaves out: how many workers of each role there were, whether attention was split by sequences, how many tokens were
// drafted a pass, and how many sequences a decoding worker takes. They are inputs of a run, not results.
//
// Read once per process; thread-safe. Looking one up is linear in a few hundred lines.
#pragma once

#include <string>
#include <vector>

#include "plan/parallel_layout.h"

namespace weir::plan {

struct Recipe {
  ParallelLayout prefill, decode;
  double prefill_workers = 1, decode_workers = 1;
  double drafts = 0;         // tokens drafted in each pass of a sequence
  double most_decoding = 0;  // sequences that a decoding worker takes at once, of all attention groups; 0: not known
  bool operator==(const Recipe&) const = default;
};

// What a row of the table says of its deployment. Lengths as stated, degrees as the columns have them.
struct RecipeQuery {
  std::string backend, system, model, precision;
  double input = 0, output = 0, concurrency = 0;
  int prefill_tp = 1, prefill_ep = 1, decode_tp = 1;
};

// All that fit, without repeats; where no prefill degree of experts fits, those whose decoding one is the row's, as one
// of the table's sources writes that. Runs with and without drafts often share the rest. Empty: nothing published fits.
std::vector<Recipe> recipes_of(const RecipeQuery& query);

}  // namespace weir::plan
