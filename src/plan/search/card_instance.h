// InstanceModels of a model card on a device of the table.
//
// A GPU's pass takes what the step model that is fitted to measured deployments says (plan/step/fitted_step.h), and the
// links of PP and CP, which no measured deployment had. What it waits for is told by the closed form below, scaled to
// that time. Other devices take the closed form itself: what each kind of operator computes, reads and sends under the
// layout, at the shares of the peaks that card_instance.cpp has with their sources.
//
// cost: the first GPU model of a process fits the step model (fitted_step.h); step_s() then takes a fraction of a
// microsecond.
#pragma once

#include <string>

#include "plan/hardware.h"
#include "plan/search/instance_model.h"

namespace weir::plan {

class CardSource : public InstanceSource {
 public:
  // Both must outlive the source and its models. `backend`: as make_step_model's.
  CardSource(const ModelCard& card, const Hardware& hardware, std::string backend = "")
      : card_(card), hardware_(hardware), backend_(std::move(backend)) {}
  // kInvalidArgument: the backend was never measured, or not on such devices.
  Status check_backend() const;
  Result<std::unique_ptr<InstanceModel>> make(const ParallelLayout& layout, const Precision& precision) const override;
  bool fitted() const { return hardware_.kind == "gpu"; }
  std::string origin() const;  // where the times are from, for people

 private:
  Status check(const ParallelLayout& layout) const;

  const ModelCard& card_;
  const Hardware& hardware_;
  std::string backend_;
};

}  // namespace weir::plan
