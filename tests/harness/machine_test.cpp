// SPDX-License-Identifier: Apache-2.0
#include "harness/machine.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace harness {
namespace {

using nlohmann::json;

// A folder that stands for a machine's root, removed in the end.
class MachineTest : public testing::Test {
 protected:
  MachineTest() { std::filesystem::create_directories(root_); }
  ~MachineTest() override { std::filesystem::remove_all(root_); }

  void put(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }

  std::filesystem::path root_ = std::filesystem::temp_directory_path() / ("machine_test_" + std::to_string(getpid()));
};

TEST_F(MachineTest, ReadsATwoSocketServer) {
  std::string cpuinfo;
  for (int thread = 0; thread < 8; ++thread) {  // two sockets of two cores of two threads
    cpuinfo += "processor\t: " + std::to_string(thread) +
               "\nmodel name\t: Example 9000\nphysical id\t: " + std::to_string(thread % 2) +
               "\ncore id\t\t: " + std::to_string(thread / 2 % 2) + "\nflags\t\t: fpu avx2 avx512f nonsense\n\n";
  }
  put("proc/cpuinfo", cpuinfo);
  put("proc/meminfo", "MemTotal:       2048 kB\nMemFree: 1 kB\n");
  put("sys/devices/system/node/node0/cpulist", "0");
  put("sys/devices/system/node/node1/cpulist", "1");
  put("sys/devices/system/node/possible", "0-1");
  const std::string cpu0 = "sys/devices/system/cpu/cpu0/";
  put(cpu0 + "cache/index0/level", "1\n");
  put(cpu0 + "cache/index0/type", "Data\n");
  put(cpu0 + "cache/index0/size", "32K\n");
  put(cpu0 + "cache/index3/level", "3\n");
  put(cpu0 + "cache/index3/type", "Unified\n");
  put(cpu0 + "cache/index3/size", "8M\n");
  put(cpu0 + "cpufreq/scaling_governor", "performance\n");
  put(cpu0 + "cpufreq/cpuinfo_max_freq", "3500000\n");
  const json cpu = describe_cpu(root_);
  EXPECT_EQ(cpu["model"], "Example 9000");
  EXPECT_EQ(cpu["threads"], 8);
  EXPECT_EQ(cpu["sockets"], 2);
  EXPECT_EQ(cpu["cores"], 4);
  EXPECT_EQ(cpu["numa_nodes"], 2);
  EXPECT_EQ(cpu["caches"], (json{{"L1d", 32768}, {"L3", 8 << 20}}));
  EXPECT_EQ(cpu["governor"], "performance");
  EXPECT_EQ(cpu["max_hertz"], 3.5e9);
  EXPECT_EQ(cpu["instruction_sets"], (json{"avx2", "avx512f"}));
  EXPECT_EQ(cpu["memory_bytes"], 2048 * 1024);
}

TEST_F(MachineTest, CoresAreCountedInSysfsWhereCpuinfoHasNone) {
  put("proc/cpuinfo", "processor\t: 0\nFeatures\t: asimd sve\n\nprocessor\t: 1\nFeatures\t: asimd sve\n");
  for (const char* cpu : {"cpu0", "cpu1"}) {
    put(std::string("sys/devices/system/cpu/") + cpu + "/topology/core_id", cpu + 3);
    put(std::string("sys/devices/system/cpu/") + cpu + "/topology/physical_package_id", "0");
  }
  const json cpu = describe_cpu(root_);
  EXPECT_EQ(cpu["sockets"], 1);
  EXPECT_EQ(cpu["cores"], 2);
  EXPECT_EQ(cpu["instruction_sets"], (json{"asimd", "sve"}));
}

TEST_F(MachineTest, WithoutProcAndSysThereIsNothingToSayButTheCores) {
  const json cpu = describe_cpu(root_ / "missing");
  EXPECT_GE(cpu["usable_cores"], 1);
  EXPECT_FALSE(cpu.contains("model"));
  EXPECT_FALSE(cpu.contains("cores"));
  EXPECT_FALSE(cpu.contains("caches"));
  EXPECT_FALSE(cpu.contains("governor"));
}

TEST_F(MachineTest, AControlGroupsQuotaLowersTheUsableCores) {
  put("proc/self/cgroup", "0::/job/step\n");
  put("sys/fs/cgroup/job/step/cpu.max", "max 100000\n");
  EXPECT_EQ(usable_cores(root_), usable_cores(root_ / "missing"));
  put("sys/fs/cgroup/job/cpu.max", "150000 100000\n");  // the group above counts as well
  EXPECT_EQ(usable_cores(root_), 1);
}

TEST_F(MachineTest, AQuotaBelowOneCoreStillLeavesOne) {
  put("proc/self/cgroup", "0::/\n");
  put("sys/fs/cgroup/cpu.max", "20000 100000\n");
  EXPECT_EQ(usable_cores(root_), 1);
}

TEST_F(MachineTest, AVersionOneQuotaCountsInAContainerThatSeesTheHostsPath) {
  put("proc/self/cgroup", "12:memory:/docker/a\n4:cpu,cpuacct:/docker/a\n");
  put("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  put("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(usable_cores(root_), usable_cores(root_ / "missing"));
  put("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "100000\n");
  EXPECT_EQ(usable_cores(root_), 1);
}

TEST_F(MachineTest, AvailableMemoryIsTheKernelsOrWhatTheControlGroupLeaves) {
  put("proc/meminfo", "MemTotal:  8000 kB\nMemAvailable:    4000 kB\n");
  EXPECT_EQ(available_memory_bytes(root_), 4000U * 1024);
  put("proc/self/cgroup", "0::/job\n");
  put("sys/fs/cgroup/job/memory.max", "max\n");
  put("sys/fs/cgroup/job/memory.current", "1000000\n");
  EXPECT_EQ(available_memory_bytes(root_), 4000U * 1024);
  put("sys/fs/cgroup/job/memory.max", "3000000\n");
  EXPECT_EQ(available_memory_bytes(root_), 2000000U);
  put("sys/fs/cgroup/job/memory.stat", "anon 5\ninactive_file 500000\n");
  EXPECT_EQ(available_memory_bytes(root_), 2500000U);
  put("sys/fs/cgroup/job/memory.current", "9000000\n");
  EXPECT_EQ(available_memory_bytes(root_), 0U);
}

TEST_F(MachineTest, AVersionOneMemoryLimitCounts) {
  put("proc/self/cgroup", "4:memory:/a\n");
  put("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "5000\n");
  put("sys/fs/cgroup/memory/a/memory.usage_in_bytes", "2000\n");
  put("sys/fs/cgroup/memory/a/memory.stat", "inactive_file 7\ntotal_inactive_file 500\n");
  EXPECT_EQ(available_memory_bytes(root_), 3500U);
}

TEST_F(MachineTest, AffinityLowersTheUsableCores) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  int first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(usable_cores(root_), 1);
  ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
  EXPECT_EQ(usable_cores(root_), CPU_COUNT(&before));
}

TEST(Machine, OnlyVariablesThatChangeResultsAreKept) {
  const char* variables[] = {"CUDA_VISIBLE_DEVICES=0,1",
                             "NCCL_ALGO=Ring",
                             "OMP_NUM_THREADS=2",
                             "OMPI_MCA_coll=tuned",
                             "SECRET_TOKEN=x",
                             "PATH=/bin",
                             "OMP_EMPTY=",
                             "OMP_NO_EQUALS",
                             "OMPI_MCA_orte_hnp_uri=1.0;tcp://10.0.0.1:5",
                             "MY_CUDA_THING=1",
                             nullptr};
  EXPECT_EQ(relevant_environment(variables), (json{{"CUDA_VISIBLE_DEVICES", "0,1"},
                                                   {"NCCL_ALGO", "Ring"},
                                                   {"OMP_NUM_THREADS", "2"},
                                                   {"OMPI_MCA_coll", "tuned"},
                                                   {"OMP_EMPTY", ""}}));
}

TEST(Machine, TheHostsNameIsKeptOnlyOnRequest) {
  EXPECT_FALSE(describe_machine(false).contains("hostname"));
  const json machine = describe_machine(true);
  std::string name(256, '\0');
  ASSERT_EQ(gethostname(name.data(), name.size()), 0);
  EXPECT_EQ(machine["hostname"], name.c_str());
}

TEST(Machine, HasEveryPartThatTheSchemaNames) {
  const json machine = describe_machine(false);
  for (const char* part : {"cpu", "devices", "links", "libraries", "environment", "load", "os", "kernel"}) {
    EXPECT_TRUE(machine.contains(part)) << part;
  }
  EXPECT_NE(machine["libraries"]["compiler"].get<std::string>().find('.'), std::string::npos);
}

}  // namespace
}  // namespace harness
