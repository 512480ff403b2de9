// For tests: an array against an unreadable page, so that a kernel that leaves it by one byte faults.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <map>
#include <new>
#include <span>
#include <type_traits>
#include <vector>

#include "backend/cpu/memory.h"

namespace weir::backend::cpu::testing {

// Mappings between two unreadable pages. What is given back stays mapped, unreadable as a whole, until the next one of
// its size is wanted: the system takes longer to make new pages than most operations here take. For one thread.
class GuardedPages {
 public:
  // `body` bytes from the second page on are readable; what they hold is left from before.
  static void* take(std::size_t body, std::size_t page) {
    std::vector<void*>& unused = unused_[body];
    void* map = nullptr;
    if (unused.empty()) {
      map = mmap(nullptr, body + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (map == MAP_FAILED) throw std::bad_alloc();
    } else {
      map = unused.back();
      unused.pop_back();
    }
    if (body > 0 && mprotect(static_cast<std::byte*>(map) + page, body, PROT_READ | PROT_WRITE) != 0)
      throw std::bad_alloc();
    return map;
  }
  static void give_back(void* map, std::size_t body, std::size_t page) {
    if (body > 0 && mprotect(static_cast<std::byte*>(map) + page, body, PROT_NONE) != 0) throw std::bad_alloc();
    unused_[body].push_back(map);
  }

 private:
  static inline std::map<std::size_t, std::vector<void*>> unused_;
};

template <class T>
class Guarded {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  // Zeroed. The page after the last element, or the one before the first, is unreadable.
  Guarded(Placement placement, std::size_t count) : count_(count) {
    const std::size_t bytes = count * sizeof(T);
    body_ = (bytes + page_ - 1) / page_ * page_;
    map_ = GuardedPages::take(body_, page_);
    auto* start = static_cast<std::byte*>(map_) + page_;
    std::memset(start, 0, body_);
    data_ = reinterpret_cast<T*>(placement == Placement::kGuardAfter ? start + body_ - bytes : start);
  }
  Guarded(Placement placement, std::span<const T> values) : Guarded(placement, values.size()) {
    std::copy(values.begin(), values.end(), data_);
  }
  ~Guarded() { GuardedPages::give_back(map_, body_, page_); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;

  T* data() const { return data_; }
  std::size_t size() const { return count_; }
  T& operator[](std::size_t i) const { return data_[i]; }
  operator std::span<const T>() const { return {data_, count_}; }

 private:
  std::size_t page_ = static_cast<std::size_t>(sysconf(_SC_PAGESIZE)), body_ = 0, count_;
  void* map_ = nullptr;
  T* data_ = nullptr;
};

}  // namespace weir::backend::cpu::testing
