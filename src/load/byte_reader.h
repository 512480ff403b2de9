// ByteReader: little-endian numbers and strings from a span of bytes, each read checked against what is left.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>

#include "base/result.h"

namespace weir::load {

static_assert(std::endian::native == std::endian::little, "model files are little-endian and are read in place");

class ByteReader {
 public:
  // `file` is named in errors and must outlive the reader.
  ByteReader(std::span<const std::byte> bytes, std::string_view file) : bytes_(bytes), file_(file) {}

  std::size_t offset() const { return offset_; }
  std::size_t remaining() const { return bytes_.size() - offset_; }
  std::string_view file() const { return file_; }

  template <class T>
    requires std::is_arithmetic_v<T>
  Result<T> number(std::string_view what) {
    if (remaining() < sizeof(T)) return cut_short(what, sizeof(T));
    T value;
    std::memcpy(&value, bytes_.data() + offset_, sizeof(T));
    offset_ += sizeof(T);
    return value;
  }

  // A u64 length and that many bytes, in place.
  Result<std::string_view> string(std::string_view what) {
    WEIR_TRY(const auto length, number<std::uint64_t>(what));
    if (length > remaining()) return cut_short(what, length);
    const auto* begin = reinterpret_cast<const char*>(bytes_.data() + offset_);
    offset_ += length;
    return std::string_view(begin, length);
  }

  // Elements of `size` bytes or more: refused when that many cannot be left in the file. Call before allocating for
  // them.
  Status expect(std::string_view what, std::uint64_t count, std::size_t size) const {
    if (count > remaining() / size) {
      return fail(ErrorCode::kCorruptFile,
                  "{}: {} says {} elements of at least {} bytes, but only {} bytes are left at offset {}", file_, what,
                  count, size, remaining(), offset_);
    }
    return {};
  }

 private:
  tl::unexpected<Error> cut_short(std::string_view what, std::uint64_t needed) const {
    return fail(ErrorCode::kCorruptFile,
                "{}: {} needs {} bytes at offset {}, but only {} are left (is the file cut short?)", file_, what,
                needed, offset_, remaining());
  }

  std::span<const std::byte> bytes_;
  std::size_t offset_ = 0;
  std::string_view file_;
};

}  // namespace weir::load
