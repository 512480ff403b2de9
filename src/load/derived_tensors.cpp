#include "load/derived_tensors.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/check.h"

namespace weir::load {
namespace {

constexpr std::size_t kPage = 4096;

std::size_t round_up(std::size_t bytes) {
  return (bytes + kPage - 1) / kPage * kPage;
}

std::int64_t rows_of(const Weight& weight) {
  std::int64_t rows = 1;
  for (std::size_t i = 0; i + 1 < weight.shape.size(); ++i) rows *= weight.shape[i];
  return rows;
}

}  // namespace

DerivedTensors::~DerivedTensors() {
  if (memory_ != nullptr) munmap(memory_, size_);
}

void DerivedTensors::add(std::string name, tensor::DType dtype, std::vector<std::int64_t> shape,
                         std::unique_ptr<RowMaker> maker) {
  CHECK(memory_ == nullptr, "{} comes too late", name);
  tensors_.push_back({.name = std::move(name), .dtype = dtype, .shape = std::move(shape), .data = {}});
  makers_.push_back(std::move(maker));
}

Status DerivedTensors::seal() {
  std::vector<std::size_t> sizes;
  for (const Weight& weight : tensors_) {
    sizes.push_back(static_cast<std::size_t>(rows_of(weight) * tensor::row_bytes(weight.dtype, weight.shape.back())));
    size_ += round_up(sizes.back());
  }
  if (size_ == 0) return {};
  void* memory = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    return fail(ErrorCode::kTooLarge, "{} MB of address space for the quantised weights cannot be reserved: {}",
                size_ >> 20, std::strerror(errno));
  }
  memory_ = static_cast<std::byte*>(memory);
  std::size_t at = 0;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    tensors_[i].data = {memory_ + at, sizes[i]};
    at += round_up(sizes[i]);
  }
  return {};
}

bool DerivedTensors::holds(std::span<const std::byte> bytes) const {
  return memory_ != nullptr && bytes.data() >= memory_ && bytes.data() < memory_ + size_;
}

bool DerivedTensors::fetch(std::span<const std::byte> rows) const {
  if (!holds(rows)) return false;
  const auto after = std::ranges::upper_bound(tensors_, rows.data(), {}, [](const Weight& w) { return w.data.data(); });
  const auto index = static_cast<std::size_t>(after - tensors_.begin()) - 1;
  const Weight& weight = tensors_[index];
  const std::int64_t row_bytes = tensor::row_bytes(weight.dtype, weight.shape.back());
  const std::int64_t offset = rows.data() - weight.data.data(), bytes = static_cast<std::int64_t>(rows.size());
  CHECK(offset % row_bytes == 0 && bytes % row_bytes == 0, "{}: {} bytes from {} on in rows of {}", weight.name, bytes,
        offset, row_bytes);
  makers_[index]->make(offset / row_bytes, bytes / row_bytes, memory_ + (rows.data() - memory_));
  if (rows.data() + rows.size() == weight.data.data() + weight.data.size()) {
    for (const auto source : makers_[index]->sources()) release_source_(source);
  }
  return true;
}

bool DerivedTensors::release(std::span<const std::byte> bytes) const {
  if (!holds(bytes)) return false;
  const std::size_t begin = round_up(static_cast<std::size_t>(bytes.data() - memory_));
  const std::size_t end = static_cast<std::size_t>(bytes.data() + bytes.size() - memory_) / kPage * kPage;
  if (begin < end) madvise(memory_ + begin, end - begin, MADV_DONTNEED);
  return true;
}

}  // namespace weir::load
