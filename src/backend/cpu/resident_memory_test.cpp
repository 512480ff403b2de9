#include "backend/cpu/memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <vector>

namespace weir::backend::cpu {
namespace {

// Of the pages that hold the piece.
std::size_t resident_now(const Memory& memory) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(memory.data()) / page * page;
  const std::size_t length = reinterpret_cast<std::uintptr_t>(memory.data()) + memory.size() - begin;
  std::vector<unsigned char> pages((length + page - 1) / page);
  EXPECT_EQ(mincore(reinterpret_cast<void*>(begin), length, pages.data()), 0);
  std::size_t count = 0;
  for (const unsigned char one : pages) count += one & 1;
  return count * page;
}

TEST(Memory, IsResidentAsFarAsSaid) {
  constexpr std::size_t kMiB = std::size_t{1} << 20, kPage = 4096;
  for (const std::size_t bytes : {kMiB, 2 * kMiB - 1, 2 * kMiB, 5 * kMiB + 100, 9 * kMiB}) {
    for (const std::size_t used : {std::size_t{1}, kMiB, bytes / 2, bytes}) {
      if (used > bytes) continue;
      const Memory memory(bytes);
      std::memset(memory.data(), 1, used);
      const std::size_t said = resident_bytes(bytes, used), seen = resident_now(memory);
      // Huge pages are given where there are any just then.
      EXPECT_LE(seen, said + 2 * kPage) << bytes << " bytes, " << used << " used";
      EXPECT_GE(seen, used) << bytes << " bytes, " << used << " used";
      EXPECT_GE(said, used);
      EXPECT_LE(said, bytes + kPage);
    }
  }
  EXPECT_EQ(resident_bytes(kMiB, 0), kMiB);
  EXPECT_EQ(resident_bytes(8 * kMiB, 0), 0u);
}

}  // namespace
}  // namespace weir::backend::cpu
