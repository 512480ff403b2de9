#include "base/cpu_info.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <vector>

namespace weir {
namespace {

// A machine made of files.
class CpuInfoTest : public testing::Test {
 protected:
  CpuInfoTest()
      : root_(std::filesystem::temp_directory_path() /
              ("weir_cpu_info_" + std::to_string(::getpid()) + "_" +
               testing::UnitTest::GetInstance()->current_test_info()->name())) {}
  ~CpuInfoTest() override { std::filesystem::remove_all(root_); }

  void write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = root_.string() + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }

  // `cores` cores of two hardware threads, numbered as Linux does: the second threads after all the first.
  void make_cores(int cores, const std::string& file = "core_cpus_list") {
    for (int cpu = 0; cpu < 2 * cores; ++cpu) {
      const int core = cpu % cores;
      write("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/" + file,
            std::to_string(core) + "," + std::to_string(core + cores) + "\n");
    }
  }

  int cores(std::vector<int> affinity) { return detail::usable_cores(root_.string(), affinity); }

  const std::vector<int> all_ = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  std::filesystem::path root_;
};

TEST_F(CpuInfoTest, CountsCoresNotHardwareThreads) {
  make_cores(8);
  EXPECT_EQ(cores(all_), 8);
  EXPECT_EQ(cores({0, 8}), 1);
  EXPECT_EQ(cores({0, 1, 9}), 2);
  EXPECT_EQ(cores({}), 1);
}

TEST_F(CpuInfoTest, ReadsTheOldNameOfTheTopologyFile) {
  make_cores(8, "thread_siblings_list");
  EXPECT_EQ(cores(all_), 8);
}

TEST_F(CpuInfoTest, WithoutTopologyEveryCpuIsACore) {
  EXPECT_EQ(cores({0, 1, 2}), 3);
}

TEST_F(CpuInfoTest, RoundsTheQuotaOfVersion2Up) {
  make_cores(8);
  write("/proc/self/cgroup", "0::/user/service\n");
  write("/sys/fs/cgroup/user/service/cpu.max", "max 100000\n");
  EXPECT_EQ(cores(all_), 8);
  write("/sys/fs/cgroup/user/service/cpu.max", "150000 100000\n");
  EXPECT_EQ(cores(all_), 2);
  write("/sys/fs/cgroup/user/service/cpu.max", "10000 100000\n");
  EXPECT_EQ(cores(all_), 1);
  write("/sys/fs/cgroup/user/service/cpu.max", "1600000 100000\n");
  EXPECT_EQ(cores(all_), 8);
}

TEST_F(CpuInfoTest, AParentsQuotaCounts) {
  make_cores(8);
  write("/proc/self/cgroup", "0::/a/b/c\n");
  write("/sys/fs/cgroup/a/b/c/cpu.max", "700000 100000\n");
  write("/sys/fs/cgroup/a/cpu.max", "300000 100000\n");
  EXPECT_EQ(cores(all_), 3);
}

TEST_F(CpuInfoTest, AContainerSeesItsGroupAtTheRoot) {
  make_cores(8);
  write("/sys/fs/cgroup/cpu.max", "400000 100000\n");
  for (const std::string group : {"/", "/docker/0123", "/../other"}) {
    write("/proc/self/cgroup", "0::" + group + "\n");
    EXPECT_EQ(cores(all_), 4) << group;
  }
}

TEST_F(CpuInfoTest, ReadsVersion1) {
  make_cores(8);
  write("/proc/self/cgroup", "12:cpuset:/\n4:cpu,cpuacct:/kubepods/pod\n1:name=systemd:/x\n");
  write("/sys/fs/cgroup/cpu,cpuacct/kubepods/pod/cpu.cfs_quota_us", "-1\n");
  write("/sys/fs/cgroup/cpu,cpuacct/kubepods/pod/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cores(all_), 8);
  write("/sys/fs/cgroup/cpu,cpuacct/kubepods/pod/cpu.cfs_quota_us", "250000\n");
  EXPECT_EQ(cores(all_), 3);
  // cpuset alone is not the cpu controller.
  write("/proc/self/cgroup", "4:cpuset:/kubepods/pod\n");
  EXPECT_EQ(cores(all_), 8);
}

TEST_F(CpuInfoTest, IgnoresNonsense) {
  make_cores(8);
  write("/proc/self/cgroup", "\n::\nx\n0:\n0::/a\n");
  for (const std::string text :
       {"", "\n", "max", "100000", "abc def", "-5 100000", "100000 0", "99999999999999999999999 1", "1 -1"}) {
    write("/sys/fs/cgroup/a/cpu.max", text);
    EXPECT_EQ(cores(all_), 8) << text;
  }
}

TEST_F(CpuInfoTest, NamesTheCpu) {
  EXPECT_EQ(detail::cpu_model_name(root_.string()), "unknown CPU");
  write("/proc/cpuinfo", "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nflags\t: fpu\n");
  EXPECT_EQ(detail::cpu_model_name(root_.string()), "Some CPU @ 2 GHz");
  write("/proc/cpuinfo", "processor\t: 0\nmodel name\t: \n");
  EXPECT_EQ(detail::cpu_model_name(root_.string()), "unknown CPU");
}

TEST(CpuInfo, ThisMachineHasACore) {
  EXPECT_GE(usable_cores(), 1);
  EXPECT_FALSE(cpu_model_name().empty());
}

}  // namespace
}  // namespace weir
