// What quantise() reads: a model's metadata for a GGUF file and its tensors, from either kind of model.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "load/tensor_map.h"
#include "load/weight_source.h"
#include "quantise/gguf_writer.h"

namespace weir::quantise {

// A weight of a folder, which is part of a tensor to be written.
struct SourcePart {
  const load::Weight* weight = nullptr;
  std::int64_t slice = 0;  // of the tensor's
  load::Picks rows;        // its row i is row rows.at(i) of the slice; of a vector, its element
  // Row i of it becomes what its row order(i) is in the folder; empty: i.
  std::function<std::int64_t(std::int64_t)> order = {};
};

struct SourceTensor {
  std::string name;                           // in the file to be written
  tensor::DType dtype = tensor::DType::kF32;  // of the data, or of the first part
  std::vector<std::int64_t> shape;            // outermost first
  std::span<const std::byte> data = {};       // of a GGUF file, or made here; else ...
  std::vector<SourcePart> parts = {};         // ... of a folder: all rows of equal slices, one slice after the other
  std::int64_t slices = 1;
  std::function<void(std::span<float>)> change = {};  // of the values of some whole rows
};

struct SourceModel {
  GgufMetadata metadata;  // all but general.file_type and general.quantization_version
  std::vector<SourceTensor> tensors;
  int layers = 0, queries_per_kv_head = 1;
  std::string note;
  std::function<Result<load::WeightBytes>(const load::Weight&)> read;  // of folders
  std::function<void(std::span<const std::byte>)> release;
  std::shared_ptr<void> owner;
};

Result<SourceModel> source_from_gguf(const std::string& path);
Result<SourceModel> source_from_folder(const std::string& path);

}  // namespace weir::quantise
