// InstanceModels of a model card on a device of the table: analytic times, from what each kind of operator computes,
// reads and sends under the layout. Without a fit: shares of the peaks are the constants of card_instance.cpp, each
// with its source.
#pragma once

#include "plan/hardware.h"
#include "plan/search/instance_model.h"

namespace weir::plan {

class CardSource : public InstanceSource {
 public:
  // Both must outlive the source.
  CardSource(const ModelCard& card, const Hardware& hardware) : card_(card), hardware_(hardware) {}
  Result<std::unique_ptr<InstanceModel>> make(const ParallelLayout& layout, const Precision& precision) const override;

 private:
  Status check(const ParallelLayout& layout) const;

  const ModelCard& card_;
  const Hardware& hardware_;
};

}  // namespace weir::plan
