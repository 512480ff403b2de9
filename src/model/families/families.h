// Every family file's one entry. A new family: its file, a line here and a line in the table of families.cpp.
#pragma once

#include <memory>

#include "model/layers/loader.h"
#include "model/model.h"

namespace weir::model {

Result<std::unique_ptr<Model>> load_llama(const ModelSpec& spec, load::WeightSource& weights, Backend& backend,
                                          const ModelLimits& limits);
Result<std::unique_ptr<Model>> load_gemma3(const ModelSpec& spec, load::WeightSource& weights, Backend& backend,
                                           const ModelLimits& limits);

}  // namespace weir::model
