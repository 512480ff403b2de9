// The quantised weights of Hugging Face folders, by what config.json says of them ("quantization_config"): several
// tensors of the file become one named weight, as small in memory as they are in the file.
//
//   fp8 (also fbgemm_fp8, modelopt's FP8)  X with X_scale_inv or X_scale         -> X as FP8 and a scale per block
//   mxfp4                                  X_blocks, X_scales                    -> X as MXFP4
//   awq, version gemm                      X.qweight, X.qzeros, X.scales         -> X.weight as int4
//   gptq, both versions; 2, 3, 4, 8 bits   the same, and X.g_idx                 -> X.weight as int4 or int8
//   auto-round                             as awq or gptq, by its packing_format
//   compressed-tensors                     X.weight_packed, X.weight_shape, ...; or X.weight of bytes; or FP8
//
// Activations are not quantised as those folders may ask (W8A8): their scales are read over. What does not come in
// blocks of 32 inputs becomes F32, four to eight times as large; GPTQ groups that are no stretches of inputs
// (desc_act) become floats of the scales' type, rounded as the reference rounds them, or F32 where that is too far from
// the weights (DeriveOptions::exact).
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "load/derived_tensors.h"
#include "load/weight_source.h"

namespace weir::load {

// A folder's tensors as its files have them.
struct FolderView {
  std::span<const Weight> tensors;
  std::span<const UnsupportedTensor> unsupported;
};

// A folder's tensors with the quantised ones made into weights.
struct FolderTensors {
  std::vector<Weight> tensors;
  std::vector<UnsupportedTensor> unsupported;
  std::shared_ptr<DerivedTensors> derived;  // null: nothing is quantised
};

struct DeriveOptions {
  std::function<bool(std::string_view)> as_floats;          // names of weights wanted as F32, to be taken apart
  std::function<void(std::span<const std::byte>)> release;  // of the files' bytes that have been read
  bool exact = false;                                       // no value is rounded, whatever memory that takes
};

// kUnsupported for another method; kCorruptFile for parts that are missing or do not fit each other, with names and
// shapes.
Result<FolderTensors> derive_quantised(const nlohmann::json& config, const std::string& file, const FolderView& folder,
                                       const DeriveOptions& options);

}  // namespace weir::load
