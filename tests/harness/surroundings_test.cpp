// SPDX-License-Identifier: Apache-2.0
#include "harness/surroundings.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

namespace harness {
namespace {

using Flags = std::vector<std::string>;

class SurroundingsTest : public testing::Test {
 protected:
  ~SurroundingsTest() override { std::filesystem::remove_all(root_); }

  void put(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }

  std::filesystem::path root_ =
      std::filesystem::temp_directory_path() / ("surroundings_test_" + std::to_string(getpid()));
};

TEST(FlagsBetween, OthersThatHaveATenthOfAllProcessorsAreALoad) {
  const Surroundings begin{.at = 100, .busy = 50, .own = 5, .processors = 4};
  Surroundings end{.at = 101, .busy = 52.3, .own = 7, .processors = 4};
  EXPECT_EQ(flags_between(begin, end), Flags{});
  end.busy = 52.5;
  EXPECT_EQ(flags_between(begin, end), Flags{"load"});
  end.processors = 8;
  EXPECT_EQ(flags_between(begin, end), Flags{});
}

TEST(FlagsBetween, TooLittleTimeOrNoKnownProcessorsIsNoLoad) {
  const Surroundings begin{.processors = 2};
  EXPECT_EQ(flags_between(begin, {.at = 0.1, .busy = 0.1, .processors = 2}), Flags{});
  EXPECT_EQ(flags_between({}, {.at = 10, .busy = 9}), Flags{});
}

TEST(FlagsBetween, AnySlowingDownIsThrottled) {
  EXPECT_EQ(flags_between({.slowed = 7}, {.slowed = 8}), Flags{"throttled"});
  EXPECT_EQ(flags_between({.slowed = 7}, {.slowed = 7}), Flags{});
}

TEST_F(SurroundingsTest, WhatTheSystemShowsIsSummed) {
  const auto ticks = sysconf(_SC_CLK_TCK);
  const auto seconds = [&](int count) { return std::to_string(count * ticks); };
  put("proc/stat", "cpu  " + seconds(3) + " 0 " + seconds(2) + " " + seconds(1000) + " " + seconds(10) + " 0 0 " +
                       seconds(4) + " " + seconds(3) +
                       " 0\ncpu0 1 0 1 1 1 0 0 1 0 0\ncpu1 1 0 1 1 1 0 0 1 0 0\nintr 5 4\n");
  put("proc/self/cgroup", "0::/job\n");
  put("sys/fs/cgroup/job/cpu.stat", "usage_usec 100\nnr_periods 9\nnr_throttled 5\nthrottled_usec 77\n");
  put("sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", "2\n");
  put("sys/devices/system/cpu/cpu1/thermal_throttle/core_throttle_count", "1\n");
  const Surroundings now = look_around(root_);
  EXPECT_DOUBLE_EQ(now.busy, 9);  // user, system and stolen; guests are users
  EXPECT_EQ(now.processors, 2);
  EXPECT_EQ(now.slowed, 8);
  EXPECT_GT(now.own, 0);
}

TEST_F(SurroundingsTest, NothingIsKnownWhereNothingIsShown) {
  const Surroundings now = look_around(root_);
  EXPECT_EQ(now.processors, 0);
  EXPECT_EQ(now.slowed, 0);
}

TEST_F(SurroundingsTest, TheOtherProcessesOfAJobAreNoLoad) {
  put("proc/stat", "cpu  1 0 1 1 1 0 0 1 0 0\ncpu0 1 0 1 1 1 0 0 1 0 0\n");
  setenv("OMPI_COMM_WORLD_RANK", "0", 1);
  setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
  EXPECT_EQ(look_around(root_).processors, 0);
  setenv("OMPI_COMM_WORLD_SIZE", "1", 1);
  EXPECT_EQ(look_around(root_).processors, 1);
  unsetenv("OMPI_COMM_WORLD_SIZE");
  unsetenv("OMPI_COMM_WORLD_RANK");
}

}  // namespace
}  // namespace harness
