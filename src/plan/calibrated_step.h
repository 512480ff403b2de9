// CalibratedStep: a StepModel fitted to steps that an engine was seen to make (`weir plan calibrate`).
//
//   step_s = rows(tokens) + samples(samples) + sequence_s sequences
//          + prefill_pair_s (attended - decode_attended) + decode_pair_s decode_attended
//
// rows() and samples() are piecewise linear through knots, because kernels change form with the number of rows: one row
// waits for memory, many for arithmetic, and between lie forms of their own. Beyond the last knot the last piece goes
// on. All coefficients are at least 0. The file is JSON; see docs/planning/live.md.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "plan/step_model.h"

namespace weir::plan {

// A function through points, linear between them. Empty: 0.
struct PiecewiseLinear {
  std::vector<double> at, value;  // `at` ascending
  double operator()(double x) const;
};

struct StepCoefficients {
  PiecewiseLinear rows_s, samples_s;
  double sequence_s = 0, prefill_pair_s = 0, decode_pair_s = 0;
};

// What a request costs outside of steps.
struct RequestOverheads {
  double request_s = 0;       // from the client's sending to the engine's next step
  double prompt_token_s = 0;  // more for each token of the prompt
  double output_s = 0;        // from the end of a step to the client's having the token
};

// How well the coefficients fit the steps they were made of.
struct FitQuality {
  std::int64_t steps = 0, dropped = 0;                    // dropped: interrupted by something else on the machine
  double median_error = 0, p90_error = 0, mean_bias = 0;  // relative
};

class CalibratedStep final : public StepModel {
 public:
  CalibratedStep() = default;
  explicit CalibratedStep(StepCoefficients coefficients) : coefficients_(std::move(coefficients)) {}

  // kCorruptFile naming the field. Nothing in the file is trusted.
  static Result<CalibratedStep> read(const std::string& path);
  static Result<CalibratedStep> from_json(const nlohmann::json& json);
  nlohmann::ordered_json to_json() const;

  double step_s(const StepShape& shape) const override;

  const StepCoefficients& coefficients() const { return coefficients_; }
  // Of the machine now against the machine when it was measured; every step takes this times as long.
  void set_slowdown(double factor) { slowdown_ = factor; }

  RequestOverheads overheads;
  FitQuality quality;
  std::string model, machine;  // what was measured, for people
  std::int64_t max_rows = 0;   // the largest step seen
  double reference_s = 0;      // what the reference load took; 0: not measured
  // Resident set of the server without KV and the buffers of steps: program, weights, tokenizer. 0: not measured.
  double resident_bytes = 0;

 private:
  StepCoefficients coefficients_;
  double slowdown_ = 1;
};

struct StepSample {
  StepShape shape;
  double seconds = 0;
};

// Least squares of the relative error over the samples with coefficients >= 0. Steps far off the rest (an interrupt, a
// neighbour on the machine) are left out, at most a tenth. kInvalidArgument if there are too few samples.
Result<CalibratedStep> fit_steps(std::span<const StepSample> samples);

// min |A x - b| with x >= 0 (Lawson and Hanson 1974), from A'A (n x n, row by row) and A'b.
std::vector<double> non_negative_least_squares(const std::vector<double>& gram, const std::vector<double>& moment);

}  // namespace weir::plan
