#include "backend/cpu/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <new>
#include <string>
#include <utility>

namespace weir::backend::cpu {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kLine = 64;
constexpr std::size_t kGuard = 4096;

std::atomic<Placement> placement_of_memory = Placement::kNormal;

std::size_t round_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

std::byte* map(std::size_t bytes) {
  void* start = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (start == MAP_FAILED) throw std::bad_alloc();
  return static_cast<std::byte*>(start);
}

// Whether memory that asks for huge pages gets them.
bool has_huge_pages() {
  std::ifstream in("/sys/kernel/mm/transparent_hugepage/enabled");
  std::string modes;
  std::getline(in, modes);
  return in && modes.find("[never]") == std::string::npos;
}

}  // namespace

std::size_t resident_bytes(std::size_t bytes, std::size_t used) {
  if (bytes < kHugePage) return bytes;
  constexpr std::size_t kPage = 4096;
  static const std::size_t page = has_huge_pages() ? kHugePage : kPage;
  return std::min(round_up(used, page), round_up(bytes, kPage));  // the rest of the last huge page is not the piece's
}

void place_memory(Placement placement) {
  placement_of_memory = placement;
}

Memory::Memory(std::size_t bytes) : size_(bytes) {
  if (bytes == 0) return;
  if (bytes > SIZE_MAX - kHugePage) throw std::bad_alloc();
  const std::size_t lines = round_up(bytes, kLine);
  if (const Placement placement = placement_of_memory; placement != Placement::kNormal) {
    const std::size_t body = round_up(lines, kGuard);
    mapping_bytes_ = body + 2 * kGuard;
    std::byte* start = map(mapping_bytes_);
    mapping_ = start;
    mprotect(start, kGuard, PROT_NONE);
    mprotect(start + kGuard + body, kGuard, PROT_NONE);
    data_ = start + kGuard + (placement == Placement::kGuardAfter ? body - lines : 0);
    return;
  }
  if (bytes < kHugePage) {
    data_ = static_cast<std::byte*>(std::aligned_alloc(kLine, lines));
    if (data_ == nullptr) throw std::bad_alloc();
    std::memset(data_, 0, lines);
    return;
  }
  mapping_bytes_ = bytes + kHugePage;  // room to start at a huge page
  mapping_ = map(mapping_bytes_);
  data_ = reinterpret_cast<std::byte*>(round_up(reinterpret_cast<std::uintptr_t>(mapping_), kHugePage));
  madvise(data_, bytes, MADV_HUGEPAGE);  // refused without transparent huge pages: then small pages serve
}

Memory::Memory(Memory&& other) noexcept {
  *this = std::move(other);
}

Memory& Memory::operator=(Memory&& other) noexcept {
  if (this == &other) return *this;
  release();
  data_ = std::exchange(other.data_, nullptr);
  size_ = std::exchange(other.size_, 0);
  mapping_ = std::exchange(other.mapping_, nullptr);
  mapping_bytes_ = std::exchange(other.mapping_bytes_, 0);
  return *this;
}

void Memory::release() {
  if (mapping_ != nullptr) {
    munmap(mapping_, mapping_bytes_);
  } else {
    std::free(data_);
  }
}

}  // namespace weir::backend::cpu
