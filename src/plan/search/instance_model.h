// InstanceModel: one instance of a model under one layout and precision, as the search sees it: its memory and the time
// of a pass, taken apart into what it waits for.
//
// cost:    step_s() is called some hundred thousand times a search: a microsecond, not a millisecond
// threads: one at a time; models may remember what they were asked
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "plan/model_card.h"
#include "plan/parallel_layout.h"
#include "plan/step_model.h"

namespace weir::plan {

struct Precision {
  WeightTypes weights;
  double kv_bits = 16;
  std::string name() const;  // "fp8, KV 8 bit"
};

// What a pass would take if it waited for nothing else; overlap makes the pass shorter than their sum.
struct StepParts {
  double memory_s = 0;   // weights and KV read
  double compute_s = 0;  // arithmetic
  double links_s = 0;    // collectives, expert exchange, stage to stage
  double fixed_s = 0;    // launches, scheduling
};

enum class Resource { kMemoryBandwidth, kCompute, kLinks, kOverhead };
std::string_view resource_name(Resource resource);
Resource largest(const StepParts& parts);

// Bytes of one device.
struct DeviceBytes {
  double usable = 0;  // of the device's memory, what an engine may use
  double weights = 0, workspace = 0;
  double for_kv() const { return usable - weights - workspace; }
};

class InstanceModel : public StepModel {
 public:
  virtual StepParts parts(const StepShape& shape) const = 0;
  // With a workspace for passes of so many tokens in a group.
  virtual DeviceBytes memory(double rows) const = 0;
  // What a device keeps of one sequence with so many tokens; a device has 1/dp of the instance's sequences.
  virtual double kv_bytes(double tokens, int block_size) const = 0;
  // Bytes of KV that one sequence's tokens take in the whole instance, once: what a hand-over moves.
  virtual double handover_bytes(double tokens) const = 0;
};

// Makes the models of a search. Errors: kUnsupported, a layout that the model cannot take, with the numbers that rule
// it out.
class InstanceSource {
 public:
  virtual ~InstanceSource() = default;
  virtual Result<std::unique_ptr<InstanceModel>> make(const ParallelLayout& layout,
                                                      const Precision& precision) const = 0;
};

}  // namespace weir::plan
