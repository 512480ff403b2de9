// GGUF files, versions 2 and 3: parsed from a mapping, every count and offset checked before it is used.
//
// A file is hostile until checked: counts are bounded by the bytes that are left before anything is allocated, sums
// cannot wrap, names are unique, tensors lie inside the file at aligned, non-overlapping offsets. Errors are
// kCorruptFile and name the field, the value found and the value allowed. Format: the GGUF specification
// (ggml/docs/gguf.md).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "load/weight_source.h"

namespace weir::load {

// A metadata value. Integers of every width are widened to int64 (a u64 above 2^63-1 is refused), floats to double.
using GgufValue = std::variant<std::int64_t, double, bool, std::string, std::vector<std::int64_t>, std::vector<double>,
                               std::vector<bool>, std::vector<std::string>>;

class GgufFile {
 public:
  // Opens NAME.gguf, or all parts when NAME ends in -00001-of-0000N.gguf.
  static Result<std::unique_ptr<GgufFile>> open(const std::string& path);
  // Parses bytes already in memory (fuzzing, tests). `bytes` must outlive the result.
  static Result<std::unique_ptr<GgufFile>> parse(std::span<const std::byte> bytes, const std::string& name);
  virtual ~GgufFile() = default;

  virtual const std::map<std::string, GgufValue, std::less<>>& metadata() const = 0;
  virtual const std::vector<Weight>& tensors() const = 0;
  // Tensors of types outside tensor::DType. A model with any of them can be described but not served.
  virtual const std::vector<UnsupportedTensor>& unsupported_tensors() const = 0;
  virtual int version() const = 0;
  virtual int parts() const = 0;                // files; 1 unless split
  virtual std::int64_t file_bytes() const = 0;  // of all parts
  virtual void release(std::span<const std::byte> bytes) = 0;
  // Drops the metadata of the vocabulary (tokenizer.*), which may be larger than everything else in memory beside the
  // weights. Once the tokenizer and the templates have been made.
  virtual void forget_vocabulary() = 0;

  // Typed look-ups: nullopt / nullptr when the key is absent or of another type (an int is accepted where a double is
  // asked).
  std::optional<std::int64_t> get_int(std::string_view key) const;
  std::optional<double> get_double(std::string_view key) const;
  std::optional<bool> get_bool(std::string_view key) const;
  const std::string* get_string(std::string_view key) const;
  const std::vector<std::string>* get_strings(std::string_view key) const;
  const std::vector<std::int64_t>* get_ints(std::string_view key) const;
  const std::vector<double>* get_doubles(std::string_view key) const;
};

// What can be read of a GGUF file, or of the parts of one, that GgufFile::open refuses (cut short, say, or with a part
// missing).
struct GgufRemains {
  int version = 0;
  int parts = 0;  // that are there
  std::int64_t file_bytes = 0;
  std::map<std::string, GgufValue, std::less<>> metadata;
  std::vector<UnsupportedTensor> tensors;  // of all types; their bytes may not be there
  std::vector<std::string> faults;
};
GgufRemains read_damaged_gguf(const std::string& path);

}  // namespace weir::load
