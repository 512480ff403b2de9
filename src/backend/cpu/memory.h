// Zeroed memory for weights, caches and scratch: 64-byte aligned; large pieces on huge pages where the system has them,
// and not touched before their first user does, so that the pages land on the memory node of the thread that will read
// them.
#pragma once

#include <cstddef>

namespace weir::backend::cpu {

class Memory {
 public:
  Memory() = default;
  explicit Memory(std::size_t bytes);  // throws std::bad_alloc
  ~Memory() { release(); }
  Memory(Memory&& other) noexcept;
  Memory& operator=(Memory&& other) noexcept;

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  void release();

  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  void* mapping_ = nullptr;  // null: from the heap
  std::size_t mapping_bytes_ = 0;
};

// How much of `bytes` of Memory is resident once the first `used` of them have been written: small pieces are zeroed
// when they are made, large ones come page by page.
std::size_t resident_bytes(std::size_t bytes, std::size_t used);

// Where the Memory made from now on lies. Guarded memory stands between two unreadable pages, against the one after or
// the one before: a kernel that leaves it by a line of 64 bytes faults. For tests; others use what is set at the start.
enum class Placement { kNormal, kGuardAfter, kGuardBefore };
void place_memory(Placement placement);

// At least `bytes`; what it held is lost when it grows.
inline void grow(Memory* memory, std::size_t bytes) {
  if (memory->size() < bytes) *memory = Memory(bytes);
}

inline float* floats(const Memory& memory) {
  return reinterpret_cast<float*>(memory.data());
}

}  // namespace weir::backend::cpu
