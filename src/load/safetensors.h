// Safetensors: one file or the shards that an index names, mapped and checked.
//
// Format: a u64 with the header's length, the header (JSON: name -> dtype, shape, data_offsets), the data. The header
// is read in one pass without building a document; the tensors must cover the data exactly, in any order, without gaps
// or overlaps. Names are the file's own; load/model_files translates them.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "load/mapped_file.h"
#include "load/weight_source.h"

namespace weir::load {

struct SafetensorsContents {
  std::vector<Weight> tensors;                 // F32, F16, BF16
  std::vector<UnsupportedTensor> unsupported;  // the format's other types
};

// One file's bytes. `bytes` must outlive the result; `file` is named in errors.
Result<SafetensorsContents> parse_safetensors(std::span<const std::byte> bytes, const std::string& file);

class Safetensors {
 public:
  // All weights of a Hugging Face folder: model.safetensors, or what model.safetensors.index.json names.
  static Result<std::unique_ptr<Safetensors>> open(const std::string& folder);
  // What can be read of weights that open() refuses: the tables of contents of the files that are there. All tensors
  // count as unsupported, for their bytes may not be there. What is missing or damaged is added to `faults`.
  static std::unique_ptr<Safetensors> open_damaged(const std::string& folder, std::vector<std::string>& faults);

  std::span<const Weight> tensors() const { return contents_.tensors; }
  std::span<const UnsupportedTensor> unsupported_tensors() const { return contents_.unsupported; }
  int files() const { return static_cast<int>(files_.size()); }
  std::int64_t file_bytes() const;
  void release(std::span<const std::byte> bytes) const;

 private:
  Status add(const std::string& path);
  void add_damaged(const std::string& path, std::vector<std::string>& faults);
  static Result<std::unique_ptr<Safetensors>> open_sharded(const std::string& folder, const std::string& index_path);

  SafetensorsContents contents_;
  std::vector<std::unique_ptr<MappedFile>> files_;
};

}  // namespace weir::load
