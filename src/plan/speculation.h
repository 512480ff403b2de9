// `weir plan spec`: what drafting tokens and verifying several in one pass is worth.
//
// A pass verifies K drafts and always commits one more token: with a_i the probability that draft i is accepted when
// all before it were, S_k = a_1 ... a_k, it commits E(K) = 1 + S_1 + ... + S_K in mean (Leviathan, Kalman, Matias
// 2023). A pass over b sequences costs C(b, K) = draft(b, K) + T(b (K + 1) rows); speed-up E(K) T(b rows) / C(b, K).
// Draft K + 1 pays where S_{K+1} / E(K) exceeds the growth of C it brings.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "plan/report.h"
#include "plan/subject.h"

namespace weir::plan {

// E(K). Drafts behind the last given probability are as likely as it.
double tokens_per_pass(const std::vector<double>& acceptance, int drafts);

struct SpeculationCosts {
  std::function<double(std::int64_t rows_per_sequence)> pass_s;  // of all sequences
  std::function<double(int drafts)> draft_s;
};
struct DraftChoice {
  int drafts = 0;
  double tokens = 1, pass_s = 0, speed_up = 1;  // tokens: a sequence and pass
};
// Of 0 to `most` drafts (0 and its time first).
std::vector<DraftChoice> draft_choices(const std::vector<double>& acceptance, const SpeculationCosts& costs, int most);
DraftChoice best_draft(const std::vector<DraftChoice>& choices);

// Acceptance above which one draft pays.
double break_even_acceptance(const SpeculationCosts& costs);

// Measured times of passes: seconds by rows, linear between, by the last slope beyond. Refuses fewer than two points,
// falling rows, times that are not positive.
struct PassTimes {
  std::vector<std::pair<double, double>> points;  // rows, seconds
  double seconds(double rows) const;
};
Result<PassTimes> parse_pass_times(const std::string& text);  // "1:10.2,8:10.9,64:15": milliseconds

struct SpecQuery {
  SubjectQuery subject;
  std::string draft;           // a model that drafts token by token; empty: draft_share
  double draft_share = 0;      // of a pass of the target with one row a sequence, for each drafted token (0: look-up)
  bool draft_at_once = false;  // all drafts in one pass of the draft (block diffusion, parallel heads)
  std::string pass_times;      // instead of the roofline of model and hardware, for all batches
  std::vector<double> acceptance = {0.7};
  std::vector<std::int64_t> batches = {1, 2, 4, 8, 16, 32, 64, 128, 256};
  std::int64_t context = 2048;
  int most_drafts = 8;
};
Result<Report> spec_report(const SpecQuery& query);

}  // namespace weir::plan
