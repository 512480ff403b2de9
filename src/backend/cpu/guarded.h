// For tests: an array against an unreadable page, so that a kernel that leaves it by one byte faults.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <new>
#include <span>
#include <type_traits>

#include "backend/cpu/memory.h"

namespace weir::backend::cpu::testing {

template <class T>
class Guarded {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  // Zeroed. The page after the last element, or the one before the first, is unreadable.
  Guarded(Placement placement, std::size_t count) : count_(count) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t bytes = count * sizeof(T), body = (bytes + page - 1) / page * page;
    mapped_ = body + 2 * page;
    map_ = mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map_ == MAP_FAILED) throw std::bad_alloc();
    auto* start = static_cast<std::byte*>(map_) + page;
    if (body > 0 && mprotect(start, body, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
    data_ = reinterpret_cast<T*>(placement == Placement::kGuardAfter ? start + body - bytes : start);
  }
  Guarded(Placement placement, std::span<const T> values) : Guarded(placement, values.size()) {
    std::copy(values.begin(), values.end(), data_);
  }
  ~Guarded() { munmap(map_, mapped_); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;

  T* data() const { return data_; }
  std::size_t size() const { return count_; }
  T& operator[](std::size_t i) const { return data_[i]; }
  operator std::span<const T>() const { return {data_, count_}; }

 private:
  void* map_;
  T* data_;
  std::size_t mapped_, count_;
};

}  // namespace weir::backend::cpu::testing
