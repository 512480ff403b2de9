// `weir plan validate silicon`: how well the step model predicts measured deployments that its fit has not seen.
#pragma once

#include <string>

#include "base/result.h"
#include "plan/report.h"

namespace weir::plan {

struct SiliconValidation {
  std::string text, file;  // of --data: rows to score with the model of the shared table; empty: cross-validate that
  bool groups_of_mixtures = false;  // leave out models and GPUs of mixtures too
};

Result<Report> validate_silicon(const SiliconValidation& options);

// Fold of a configuration, 0..4: a hash of it, so that the split is fixed and repeats of a configuration stay together.
constexpr int kFolds = 5;
int fold_of(const std::string& configuration);

}  // namespace weir::plan
