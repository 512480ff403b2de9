// StepFacts: the few numbers of a model that decide how long a forward pass takes, from its card or, where there is no
// card, estimated from the parameter counts that its name states.
#pragma once

#include <optional>
#include <string>

#include "plan/model_card.h"

namespace weir::plan {

struct StepFacts {
  std::string name;
  bool estimated = false;  // from the name alone
  double layers = 0, sparse_layers = 0, full_layers = 0;  // full: attend to everything before
  double window_layers = 0, window = 0;                   // of a sliding window, and its mean length
  double hidden = 0, heads = 0, kv_heads = 1;  // heads 0: not known
  double attention_weights = 0, ffn_weights = 0, head_weights = 0, expert_weights = 0;  // elements, of all layers
  double experts = 0, experts_used = 0;
  double kv_elements = 0;       // that one layer keeps of a token
  double prefill_pair = 0;      // multiply-adds of a query and a key in one layer, score and value, of all heads
  double decode_pair = 0;       // the same while decoding from latents; 0: bound by memory, not counted
  bool latent = false;          // one latent for all heads: tensor parallelism repeats it
  bool dense() const { return experts == 0; }
  double active_weights() const {
    return attention_weights + ffn_weights + head_weights +
           (experts > 0 ? expert_weights * experts_used / experts : 0);
  }
};

StepFacts facts_of(const ModelCard& card);

// "Foo-27B", "Bar-80B-A3B": total and active parameters, in billions. Nothing where the name states no count.
std::optional<StepFacts> facts_from_name(const std::string& name);

// The card that read_model_card knows, else the name's numbers; nothing where neither helps.
std::optional<StepFacts> facts_for(const std::string& model);

}  // namespace weir::plan
