// SPDX-License-Identifier: Apache-2.0
#include "bench/training/stages.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace bench {
namespace {

// The layers that each stage begins with.
std::vector<int> deal(const std::vector<double>& seconds, const std::vector<int>& beginnings, int stages) {
  std::vector<int> firsts;
  for (const DealtStage& stage : deal_layers(seconds, beginnings, stages)) firsts.push_back(stage.layers.first);
  return firsts;
}

TEST(Stages, AreDealtSoThatTheLongestIsAsShortAsCanBe) {
  const std::vector<double> seconds = {5, 1, 1, 1, 6, 2};
  const std::vector<int> anywhere = {0, 1, 2, 3, 4, 5};
  EXPECT_EQ(deal(seconds, anywhere, 1), (std::vector<int>{0}));
  EXPECT_EQ(deal(seconds, anywhere, 2), (std::vector<int>{0, 4}));
  EXPECT_EQ(deal(seconds, anywhere, 6), anywhere);
  const auto three = deal_layers(seconds, anywhere, 3);
  for (const DealtStage& stage : three) EXPECT_LE(stage.seconds, 8);
  EXPECT_EQ(three.front().layers.first, 0);
  EXPECT_EQ(three.back().layers.end, 6);
}

TEST(Stages, BeginOnlyWhereTheNetworkCanBeCut) {
  EXPECT_EQ(deal({5, 1, 1, 1, 6, 2}, {0, 3, 5}, 2), (std::vector<int>{0, 3}));
  EXPECT_EQ(deal({1, 1, 1, 1, 9, 2}, {0, 1, 5}, 2), (std::vector<int>{0, 5}));
  EXPECT_THROW(deal({1, 1, 1}, {0, 2}, 3), harness::Error);
}

TEST(Stages, OfAMeasuredNetworkAreItsLayersWithTheirTime) {
  const auto devices = harness::open_devices("cpu:3", {.threads = 1});
  const auto stages = deal_measured_layers(*devices, "lenet", {.backend = "plain", .capacity = 2});
  ASSERT_EQ(stages.size(), 3U);
  int next = 0;
  for (const DealtStage& stage : stages) {
    EXPECT_EQ(stage.layers.first, next);
    EXPECT_GT(stage.seconds, 0);
    next = stage.layers.end;
  }
  EXPECT_EQ(next, 10);
}

}  // namespace
}  // namespace bench
