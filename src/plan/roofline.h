// `weir plan roofline`: whether arithmetic or memory bounds each operator, and what no implementation can beat.
//
// Bounds, not predictions: peaks and bandwidths of data sheets, perfect overlap inside an operator, none between
// operators. Williams, Waterman, Patterson (2009): attainable = min(peak, bandwidth x intensity).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/operators.h"
#include "plan/report.h"
#include "plan/step_model.h"
#include "plan/subject.h"

namespace weir::plan {

// The bound as a StepModel: sums of floor_s().
class RooflineStep : public StepModel {
 public:
  // All must outlive this.
  RooflineStep(const ModelCard& card, const Hardware& hardware, OperatorOptions options)
      : card_(card), hardware_(hardware), options_(std::move(options)) {}
  double step_s(const StepShape& shape) const override;

 private:
  const ModelCard& card_;
  const Hardware& hardware_;
  OperatorOptions options_;
};

// A whole pass on one device: all its arithmetic at peak, all its bytes at full bandwidth, all its messages.
struct PassBound {
  double compute_s = 0, memory_s = 0, link_s = 0;
  double step_s = 0;  // sum of the operators' floors
  double flops = 0, bytes = 0;
  bool memory_bound() const { return memory_s > compute_s; }
  double intensity() const { return bytes > 0 ? flops / bytes : 0; }
};
PassBound bound_of(const std::vector<Operator>& operators, const Hardware& hardware);

StepShape decode_shape(std::int64_t sequences, std::int64_t context);
StepShape prefill_shape(std::int64_t cached, std::int64_t suffix);  // one sequence

// A prefill of whose prompt the fraction `cached` is in the cache, one sequence alone: the longest suffix that is bound
// by memory (0: none is; `most`: all up to there are).
std::int64_t memory_bound_suffix(const ModelCard& card, const Hardware& hardware, const OperatorOptions& options,
                                 double cached, std::int64_t most);

struct RooflineQuery {
  SubjectQuery subject;
  std::int64_t batch = 1;
  std::int64_t context = 1024;  // of each decoding sequence
  std::int64_t prompt = 4096;
  double cached = 0;  // fraction of the prompt
};

struct RooflineResult {
  Report report;
  std::string svg;
};

Result<RooflineResult> roofline(const RooflineQuery& query);

// Two logarithmic axes: operations per byte and TFLOP/s; roofs of each operand width, points for each operator.
std::string roofline_svg(const std::string& title, const Hardware& hardware, const std::vector<Operator>& decode,
                         const std::vector<Operator>& prefill);

}  // namespace weir::plan
