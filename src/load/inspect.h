// What a model is, for people (`weir inspect MODEL`) and for programs (`--json`). Reads no weights, only their table of
// contents.
#pragma once

#include <string>

#include "base/result.h"

namespace weir::load {

enum class InspectFormat { kText, kJson };

// A model that weir cannot serve (unknown architecture or tensor type, a file with only a vocabulary) is described by
// its metadata and tensors, with the reason. Errors: kNotFound, kCorruptFile. Ends with a newline.
Result<std::string> describe_model(const std::string& path, InspectFormat format);

}  // namespace weir::load
