// What quantise() reads: a model's metadata for a GGUF file and its tensors, from either kind of model.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "load/weight_source.h"
#include "quantise/gguf_writer.h"

namespace weir::quantise {

struct SourceTensor {
  std::string name;  // in the file to be written
  tensor::DType dtype = tensor::DType::kF32;
  std::vector<std::int64_t> shape;       // outermost first
  std::span<const std::byte> data;       // of a GGUF file, or made here
  const load::Weight* weight = nullptr;  // of a folder, to be read
  // Row i of the output is row order(i) of the data; empty: i.
  std::function<std::int64_t(std::int64_t)> order = {};
};

struct SourceModel {
  GgufMetadata metadata;  // all but general.file_type and general.quantization_version
  std::vector<SourceTensor> tensors;
  int layers = 0, queries_per_kv_head = 1;
  std::string note;
  std::function<Result<load::WeightBytes>(const SourceTensor&)> read;
  std::function<void(std::span<const std::byte>)> release;
  std::shared_ptr<void> owner;
};

Result<SourceModel> source_from_gguf(const std::string& path);
Result<SourceModel> source_from_folder(const std::string& path);

}  // namespace weir::quantise
