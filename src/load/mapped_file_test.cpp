#include "load/mapped_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace weir::load {
namespace {

class MappedFileTest : public testing::Test {
 protected:
  MappedFileTest() { std::ofstream(path_, std::ios::binary) << std::string(kSize, 'x'); }
  ~MappedFileTest() override { std::filesystem::remove(path_); }

  static constexpr std::size_t kSize = 1 << 20;
  std::string path_ =
      (std::filesystem::temp_directory_path() / fmt::format("weir_mapped_file_test_{}", getpid())).string();
};

// Pages of [begin, end) that this process holds.
std::size_t resident_bytes(const void* address) {
  std::ifstream smaps("/proc/self/smaps");
  std::string line;
  bool found = false;
  const std::string begin = fmt::format("{:x}-", reinterpret_cast<std::uintptr_t>(address));
  while (std::getline(smaps, line)) {
    if (line.starts_with(begin)) found = true;
    if (found && line.starts_with("Rss:")) return static_cast<std::size_t>(std::atoll(line.c_str() + 4)) * 1024;
  }
  return 0;
}

std::size_t sum(std::span<const std::byte> bytes) {
  std::size_t total = 0;
  for (const std::byte b : bytes) total += static_cast<std::size_t>(b);
  return total;
}

TEST_F(MappedFileTest, ReadsAndReleases) {
  const auto file = MappedFile::open(path_);
  ASSERT_TRUE(file) << file.error().message;
  const auto bytes = (*file)->bytes();
  ASSERT_EQ(bytes.size(), kSize);
  EXPECT_EQ(sum(bytes), kSize * 'x');
  EXPECT_EQ(resident_bytes(bytes.data()), kSize);
  (*file)->release(bytes.first(kSize / 2));
  EXPECT_LE(resident_bytes(bytes.data()), kSize / 2);
  (*file)->release(bytes.subspan(1, 10));  // not one whole page
  static const std::byte elsewhere[8] = {};
  (*file)->release(elsewhere);
  EXPECT_EQ(sum(bytes), kSize * 'x');
}

TEST_F(MappedFileTest, RefusesWhatIsNoFile) {
  EXPECT_EQ(MappedFile::open(path_ + ".missing").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(MappedFile::open("/").error().code, ErrorCode::kCorruptFile);
  EXPECT_EQ(MappedFile::open("/dev/null").error().code, ErrorCode::kCorruptFile);
  std::ofstream(path_, std::ios::trunc).close();
  const auto empty = MappedFile::open(path_);
  ASSERT_FALSE(empty);
  EXPECT_NE(empty.error().message.find("empty"), std::string::npos);
}

TEST_F(MappedFileTest, AFileThatShrinksIsNamed) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto shrink = [&] {
    const auto file = MappedFile::open(path_);
    {
      const auto closed = MappedFile::open(path_);
    }
    std::filesystem::resize_file(path_, 4096);
    std::exit(static_cast<int>(sum((*file)->bytes()) % 2));
  };
  EXPECT_EXIT(shrink(), testing::ExitedWithCode(2), "weir_mapped_file_test_.* became shorter than the 1048576 bytes");
}

TEST_F(MappedFileTest, OtherFaultsStayFaults) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto fault = [&] {
    const auto file = MappedFile::open(path_);
    raise(SIGBUS);
    std::exit(0);
  };
  EXPECT_DEATH(fault(), "");
}

}  // namespace
}  // namespace weir::load
