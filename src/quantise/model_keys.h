// A ModelSpec as the hyper-parameters of a GGUF file.
//
// There is one list of keys for all families, and no second one of what each can express: what was written is read
// again by the family that reads the architecture, and a model that comes back another is refused, by what differs
// (first_difference). Key names: the GGUF specification and what llama.cpp's converter writes.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "load/model_spec.h"
#include "quantise/gguf_writer.h"

namespace weir::quantise {

// What GGUF keeps as a tensor and others as numbers of a configuration.
struct VectorTensor {
  std::string name;
  std::vector<float> values;
};

struct ModelKeys {
  GgufMetadata metadata;
  std::vector<VectorTensor> tensors;
};

// `patterns`: which layers have a window is written down, for models whose layers differ from their architecture's
// rule. Files of usual ones do without, as llama.cpp expects of some architectures.
ModelKeys model_keys(const load::ModelSpec& spec, const std::string& architecture, bool patterns);

// What `read`, made of such keys, lacks of `wanted` or has otherwise: for people ("a sliding window of 24 tokens"), or
// empty. Not compared is what the writer of the tensors makes up for: pairs of a rotation, the offset of norms.
std::string first_difference(const load::ModelSpec& wanted, const load::ModelSpec& read);

}  // namespace weir::quantise
