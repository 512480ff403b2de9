// Rules that hold for a ModelSpec whatever file it came from.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "load/model_spec.h"

namespace weir::load {

enum class Presence { kAbsent, kOptional, kRequired };

// Which linear layers have a bias.
struct Biases {
  Presence qkv = Presence::kAbsent;
  Presence attention_output = Presence::kAbsent;
  Presence ffn = Presence::kAbsent;
};

// What ties the fields of a spec together: heads divide, rotated dimensions fit, numbers are finite. Ranges of single
// fields were checked where they were read.
Status check_spec(const ModelSpec& spec, const std::string& file);

// 0.1 m ln(factor) + 1: by how much YaRN (Peng et al. 2023) sharpens attention.
double yarn_magnitude(double factor, double m = 1.0);

// The context that a model stretched by YaRN reaches: files may state the original one or the stretched one.
std::int64_t stretched_context(const RopeSpec& rope, std::int64_t stated);

// "X is not supported; the nearest that is: Y. Supported: ..."
tl::unexpected<Error> unsupported_architecture(const std::string& file, std::string_view what, std::string_view name,
                                               std::span<const std::string_view> supported);

}  // namespace weir::load
