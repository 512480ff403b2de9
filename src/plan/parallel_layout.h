// ParallelLayout: how one instance of a model is spread over devices, and Deployment: the instances that serve
// together.
//
// A StepShape counts what the whole instance computes in one pass. Of it a device sees: 1/dp of the sequences (each
// group of tp * cp devices has its own), with pp stages one part of the layers at a time. The time of a pass is from
// its first stage to its last; pp passes are under way at once.
#pragma once

#include <string>

namespace weir::plan {

struct ParallelLayout {
  int tp = 1;  // tensor: heads and FFN columns of a layer; its groups exchange sums twice a layer
  int pp = 1;  // pipeline: stages of consecutive layers
  int dp = 1;  // attention by sequences: groups with weights of their own for all but the experts
  int ep = 1;  // experts: each device holds 1/ep of them, cut further over expert_tp() devices; divides tp * dp * cp
  int cp = 1;  // context: a sequence's KV and the rows of its prefill; weights are repeated

  int devices() const { return tp * pp * dp * cp; }
  int stage_devices() const { return tp * dp * cp; }  // over which a layer's experts are spread
  int expert_tp() const { return stage_devices() / ep; }
  bool operator==(const ParallelLayout&) const = default;

  // "TP8 EP8", "TP1": what is not 1, and TP.
  std::string name() const {
    std::string text = "TP" + std::to_string(tp);
    if (pp > 1) text += " PP" + std::to_string(pp);
    if (dp > 1) text += " DP" + std::to_string(dp);
    if (ep > 1) text += " EP" + std::to_string(ep);
    if (cp > 1) text += " CP" + std::to_string(cp);
    return text;
  }
};

// Instances of one kind.
struct Pool {
  ParallelLayout layout;
  int instances = 1;
  int devices() const { return instances * layout.devices(); }
};

// Aggregated: `serving` does all. Disaggregated: `prefill` computes prompts and hands their KV to `serving`, which
// decodes.
struct Deployment {
  bool disaggregated = false;
  Pool prefill;
  Pool serving;
  int devices() const { return serving.devices() + (disaggregated ? prefill.devices() : 0); }
};

}  // namespace weir::plan
