#include "quantise/gguf_writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/check.h"
#include "load/gguf_types.h"

namespace weir::quantise {
namespace {

using std::int64_t;
using std::uint32_t;
using std::uint64_t;

enum ValueType : uint32_t { kU8 = 0, kU32 = 4, kI32 = 5, kF32 = 6, kBool = 7, kString = 8, kArray = 9 };

}  // namespace

template <class T>
void GgufMetadata::put(T value) {
  const auto* from = reinterpret_cast<const std::byte*>(&value);
  bytes_.insert(bytes_.end(), from, from + sizeof value);
}

void GgufMetadata::put_text(std::string_view text) {
  put<uint64_t>(text.size());
  const auto* from = reinterpret_cast<const std::byte*>(text.data());
  bytes_.insert(bytes_.end(), from, from + text.size());
}

void GgufMetadata::begin(std::string_view key, uint32_t type) {
  ++count_;
  put_text(key);
  put(type);
}

void GgufMetadata::add_u32(std::string_view key, uint32_t value) {
  begin(key, kU32);
  put(value);
}

void GgufMetadata::add_i32(std::string_view key, std::int32_t value) {
  begin(key, kI32);
  put(value);
}

void GgufMetadata::add_f32(std::string_view key, float value) {
  begin(key, kF32);
  put(value);
}

void GgufMetadata::add_bool(std::string_view key, bool value) {
  begin(key, kBool);
  put<std::uint8_t>(value ? 1 : 0);
}

void GgufMetadata::add_string(std::string_view key, std::string_view value) {
  begin(key, kString);
  put_text(value);
}

void GgufMetadata::add_strings(std::string_view key, std::span<const std::string> values) {
  begin(key, kArray);
  put<uint32_t>(kString);
  put<uint64_t>(values.size());
  for (const std::string& value : values) put_text(value);
}

void GgufMetadata::add_i32s(std::string_view key, std::span<const std::int32_t> values) {
  begin(key, kArray);
  put<uint32_t>(kI32);
  put<uint64_t>(values.size());
  for (const std::int32_t value : values) put(value);
}

void GgufMetadata::add_f32s(std::string_view key, std::span<const float> values) {
  begin(key, kArray);
  put<uint32_t>(kF32);
  put<uint64_t>(values.size());
  for (const float value : values) put(value);
}

void GgufMetadata::add_bools(std::string_view key, const std::vector<bool>& values) {
  begin(key, kArray);
  put<uint32_t>(kBool);
  put<uint64_t>(values.size());
  for (const bool value : values) put<std::uint8_t>(value ? 1 : 0);
}

void GgufMetadata::add_u8s(std::string_view key, std::span<const std::byte> values) {
  begin(key, kArray);
  put<uint32_t>(kU8);
  put<uint64_t>(values.size());
  bytes_.insert(bytes_.end(), values.begin(), values.end());
}

void GgufMetadata::add_raw(std::string_view key, std::span<const std::byte> type_and_value) {
  ++count_;
  put_text(key);
  bytes_.insert(bytes_.end(), type_and_value.begin(), type_and_value.end());
}

int64_t GgufTensor::rows() const {
  int64_t rows = 1;
  for (std::size_t i = 0; i + 1 < shape.size(); ++i) rows *= shape[i];
  return rows;
}

int64_t GgufTensor::bytes() const {
  return rows() * tensor::row_bytes(dtype, shape.back());
}

GgufWriter::~GgufWriter() {
  if (file_ >= 0) close(file_);
  if (!partial_.empty()) unlink(partial_.c_str());
}

tl::unexpected<Error> GgufWriter::failed(std::string_view what) const {
  return fail(ErrorCode::kInternal, "{}: {}: {}; nothing is left of the output", path_, what, std::strerror(errno));
}

Status GgufWriter::open(const std::string& path) {
  path_ = path;
  struct stat found{};
  if (lstat(path.c_str(), &found) == 0)
    return fail(ErrorCode::kInvalidArgument, "{}: is there already; give another name or remove it", path);
  const std::string partial = fmt::format("{}.partial-{}", path, getpid());
  file_ = ::open(partial.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (file_ < 0) return failed("cannot be written");
  partial_ = partial;
  return {};
}

Status GgufWriter::write_all(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(file_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return failed("writing failed");
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    written_ += count;
  }
  return {};
}

std::vector<std::byte> gguf_head(const GgufMetadata& metadata, std::span<const GgufTensor> tensors) {
  std::vector<std::byte> head;
  const auto put = [&head](auto value) {
    const auto* from = reinterpret_cast<const std::byte*>(&value);
    head.insert(head.end(), from, from + sizeof value);
  };
  for (const char c : {'G', 'G', 'U', 'F'}) put(c);
  put(uint32_t{3});
  put(uint64_t{tensors.size()});
  put(uint64_t{metadata.count()});
  head.insert(head.end(), metadata.bytes().begin(), metadata.bytes().end());
  int64_t offset = 0;
  for (const GgufTensor& tensor : tensors) {
    put(uint64_t{tensor.name.size()});
    for (const char c : tensor.name) put(c);
    put(static_cast<uint32_t>(tensor.shape.size()));
    for (auto extent = tensor.shape.rbegin(); extent != tensor.shape.rend(); ++extent)
      put(static_cast<uint64_t>(*extent));
    const auto id = load::gguf_type_id(tensor.dtype);
    CHECK(id.has_value(), "{} is no type of GGUF", tensor::info(tensor.dtype).name);
    put(static_cast<uint32_t>(*id));
    put(static_cast<uint64_t>(offset));
    offset += (tensor.bytes() + kGgufAlignment - 1) / kGgufAlignment * kGgufAlignment;
  }
  head.resize((head.size() + kGgufAlignment - 1) / kGgufAlignment * kGgufAlignment);
  return head;
}

Status GgufWriter::begin(const GgufMetadata& metadata, std::span<const GgufTensor> tensors) {
  return write_all(gguf_head(metadata, tensors));
}

Status GgufWriter::write(std::span<const std::byte> bytes) {
  return write_all(bytes);
}

Status GgufWriter::end_tensor() {
  constexpr std::byte kZeros[kGgufAlignment] = {};
  return write_all(
      std::span(kZeros).first(static_cast<std::size_t>((kGgufAlignment - written_ % kGgufAlignment) % kGgufAlignment)));
}

Status GgufWriter::finish() {
  if (fsync(file_) != 0) return failed("writing to the disk failed");
  const int file = file_;
  file_ = -1;
  if (close(file) != 0) return failed("writing failed");
  // link() refuses where something has come in the meantime; rename() would not.
  if (link(partial_.c_str(), path_.c_str()) != 0) {
    if (errno != EPERM && errno != EOPNOTSUPP) return failed("taking its name failed");
    if (rename(partial_.c_str(), path_.c_str()) != 0) return failed("taking its name failed");
    partial_.clear();
  }
  return {};
}

}  // namespace weir::quantise
