// Writes a GGUF file in one pass: metadata and the table of tensors first, then each tensor's bytes in order.
//
// The file has another name until it is complete and on the disk; only then does it take its own, and never the place
// of a file that is there. Whatever fails on the way leaves nothing behind. Format: the GGUF specification, version 3.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tensor/dtype.h"

namespace weir::quantise {

// Metadata as bytes of the file.
class GgufMetadata {
 public:
  void add_u32(std::string_view key, std::uint32_t value);
  void add_i32(std::string_view key, std::int32_t value);
  void add_f32(std::string_view key, float value);
  void add_bool(std::string_view key, bool value);
  void add_string(std::string_view key, std::string_view value);
  void add_strings(std::string_view key, std::span<const std::string> values);
  void add_i32s(std::string_view key, std::span<const std::int32_t> values);
  void add_bools(std::string_view key, const std::vector<bool>& values);
  void add_u8s(std::string_view key, std::span<const std::byte> values);
  void add_f32s(std::string_view key, std::span<const float> values);
  // A value with its type, as another file has it.
  void add_raw(std::string_view key, std::span<const std::byte> type_and_value);

  std::uint64_t count() const { return count_; }
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  template <class T>
  void put(T value);
  void put_text(std::string_view text);
  void begin(std::string_view key, std::uint32_t type);

  std::vector<std::byte> bytes_;
  std::uint64_t count_ = 0;
};

struct GgufTensor {
  std::string name;
  tensor::DType dtype = tensor::DType::kF32;
  std::vector<std::int64_t> shape;  // outermost first

  std::int64_t rows() const;
  std::int64_t bytes() const;
};

// What stands before the tensors' bytes, which follow one another at multiples of kGgufAlignment.
std::vector<std::byte> gguf_head(const GgufMetadata& metadata, std::span<const GgufTensor> tensors);
inline constexpr std::int64_t kGgufAlignment = 32;

class GgufWriter {
 public:
  GgufWriter() = default;
  ~GgufWriter();
  GgufWriter(const GgufWriter&) = delete;
  GgufWriter& operator=(const GgufWriter&) = delete;

  // kInvalidArgument when something of that name is there.
  Status open(const std::string& path);
  Status begin(const GgufMetadata& metadata, std::span<const GgufTensor> tensors);
  // The next bytes of the tensors, which follow one another as begin() named them.
  Status write(std::span<const std::byte> bytes);
  Status end_tensor();  // fills up to the next tensor's place
  Status finish();
  std::int64_t written() const { return written_; }

 private:
  Status write_all(std::span<const std::byte> bytes);
  tl::unexpected<Error> failed(std::string_view what) const;

  std::string path_, partial_;
  int file_ = -1;
  std::int64_t written_ = 0;
};

}  // namespace weir::quantise
