// SPDX-License-Identifier: Apache-2.0
#include "allreduce/algorithms.hpp"

#include <gtest/gtest.h>

#include <bit>

#include "allreduce/cost.hpp"
#include "allreduce/verify.hpp"
#include "harness/error.hpp"
#include "tests/allreduce/common.hpp"

namespace allreduce {
namespace {

int log2_up(int ranks) { return std::bit_width(static_cast<unsigned>(ranks - 1)); }

std::string unproved(const Algorithm& algorithm, const Shape& shape) {
  const Verdict verdict = verify(algorithm.build(shape));
  if (verdict.proved) return "";
  return std::to_string(shape.ranks) + " ranks, " + std::to_string(shape.pieces) + " pieces, groups of " +
         std::to_string(shape.group) + ": " + verdict.reason;
}

class EachAlgorithm : public testing::TestWithParam<Algorithm> {};

TEST_P(EachAlgorithm, IsProvedForOneToSixtyFourRanks) {
  for (int ranks = 1; ranks <= 64; ++ranks) {
    for (const Placement placement : placements) {
      EXPECT_EQ(unproved(GetParam(), {ranks, 1, placement}), "");
      if (ranks > 12) continue;
      EXPECT_EQ(unproved(GetParam(), {ranks, 3, placement}), "");
    }
  }
}

TEST_P(EachAlgorithm, SendsNoLessThanTheBounds) {
  for (int ranks = 1; ranks <= 40; ++ranks) {
    const Cost total = cost(GetParam().build({ranks}));
    EXPECT_GE(total.sent, total.least_sent - 1e-9) << ranks;
    EXPECT_GE(total.received, total.least_sent - 1e-9) << ranks;
  }
}

TEST_P(EachAlgorithm, CallsBusBandwidthLinkSpeedOnlyWhereEveryRankSendsTheLeast) {
  if (!GetParam().busbw_is_link_speed) return;
  for (int ranks = 2; ranks <= 40; ++ranks) {
    const Cost total = cost(GetParam().build({ranks}));
    EXPECT_NEAR(total.sent, total.least_sent, 1e-9) << ranks;
    EXPECT_NEAR(total.received, total.least_sent, 1e-9) << ranks;
  }
}

TEST_P(EachAlgorithm, IsFoundByItsName) {
  EXPECT_EQ(find_algorithm(GetParam().name)->build, GetParam().build);
  EXPECT_EQ(GetParam().build({3}).name, GetParam().name);
  EXPECT_EQ(find_algorithm(std::string(GetParam().name) + "s"), nullptr);
}

TEST_P(EachAlgorithm, RefusesNoRanksAndNoPieces) {
  EXPECT_THROW(GetParam().build({0}), harness::Error);
  EXPECT_THROW(GetParam().build({2, 0}), harness::Error);
}

INSTANTIATE_TEST_SUITE_P(Catalogue, EachAlgorithm, testing::ValuesIn(algorithms().begin(), algorithms().end()),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(Algorithms, WithGroupsAreProvedForGroupsOfEverySize) {
  int grouped = 0;
  for (const Algorithm& algorithm : algorithms()) {
    if (!algorithm.grouped) continue;
    ++grouped;
    for (int ranks = 1; ranks <= 14; ++ranks) {
      for (int group = 1; group <= ranks + 1; ++group) {
        for (const Placement placement : placements) EXPECT_EQ(unproved(algorithm, {ranks, 2, placement, group}), "");
      }
    }
  }
  EXPECT_EQ(grouped, 2);
}

TEST(Algorithms, TakeTheStepsOfTheirPapers) {
  for (int ranks = 2; ranks <= 64; ++ranks) {
    const int up = log2_up(ranks);
    const bool power = ranks == 1 << up;
    EXPECT_EQ(cost(parameter_server({ranks})).steps, 2);
    EXPECT_EQ(cost(ring({ranks})).steps, 2 * (ranks - 1));
    EXPECT_EQ(cost(bidirectional_ring({ranks})).steps, 2 * (ranks - 1));
    EXPECT_EQ(cost(one_shot({ranks})).steps, 1);
    EXPECT_EQ(cost(two_shot({ranks})).steps, 2);
    EXPECT_EQ(cost(recursive_doubling({ranks})).steps, power ? up : up - 1 + 2);
    EXPECT_EQ(cost(halving_doubling({ranks})).steps, power ? 2 * up : 2 * (up - 1) + 3);
    // A tree that is not full has chains that are no longer than those of the full one.
    EXPECT_LE(cost(tree({ranks})).steps, 2 * up);
    EXPECT_LE(cost(double_tree({ranks})).steps, 2 * up);
    if (power) {
      EXPECT_EQ(cost(tree({ranks})).steps, 2 * up);
    }
  }
  // Five groups of four: three hops within each way, four among the groups each way.
  EXPECT_EQ(cost(hierarchical({20, 1, Placement::in_place, 4})).steps, 2 * 3 + 2 * 4);
  EXPECT_EQ(cost(leader({20, 1, Placement::in_place, 4})).steps, 1 + 2 * 4 + 1);
  EXPECT_EQ(cost(torus({16})).steps, 2 * 3 + 2 * 3);
}

TEST(Algorithms, SendWhatTheirPapersSay) {
  for (int ranks = 2; ranks <= 32; ++ranks) {
    const double all_but_one = ranks - 1;
    EXPECT_DOUBLE_EQ(cost(parameter_server({ranks})).sent, all_but_one);
    EXPECT_DOUBLE_EQ(cost(parameter_server({ranks})).received, all_but_one);
    EXPECT_DOUBLE_EQ(cost(one_shot({ranks})).sent, all_but_one);
    EXPECT_DOUBLE_EQ(cost(one_shot({ranks})).reduced, all_but_one);
    EXPECT_NEAR(cost(ring({ranks})).sent, 2 * all_but_one / ranks, 1e-9);
    EXPECT_NEAR(cost(ring({ranks})).reduced, all_but_one / ranks, 1e-9);
    // Half the vector to each of at most two children and a parent in one tree, and to a parent in the other.
    EXPECT_LE(cost(double_tree({ranks})).sent, 2);
    EXPECT_LE(cost(double_tree({ranks})).reduced, 1.5);
    if (std::has_single_bit(static_cast<unsigned>(ranks))) {
      EXPECT_NEAR(cost(halving_doubling({ranks})).sent, 2 * all_but_one / ranks, 1e-9);
      EXPECT_DOUBLE_EQ(cost(recursive_doubling({ranks})).sent, log2_up(ranks));
    }
  }
}

// Bytes that leave each rank's group: what a slow network between nodes carries.
TEST(Algorithms, WithGroupsSendLittleBetweenGroups) {
  const auto between = [](const Schedule& schedule, int group) {
    double vectors = 0;
    for (const Op& op : schedule.ops) {
      if (op.from.rank / group != op.to.rank / group) vectors += static_cast<double>(op.to.count) / schedule.chunks;
    }
    return vectors;
  };
  const Shape shape{16, 1, Placement::in_place, 4};
  // Four groups pass the whole vector around once each way, three hops each.
  EXPECT_NEAR(between(hierarchical(shape), 4), 2 * 3, 1e-9);
  EXPECT_NEAR(between(leader(shape), 4), 2 * 3, 1e-9);
  EXPECT_GT(between(two_shot(shape), 4), 2 * 3);
}

TEST(Algorithms, OfTwoTreesAreInnerInOneAndLeavesInTheOther) {
  for (int ranks = 2; ranks <= 33; ++ranks) {
    const Schedule schedule = double_tree({ranks});
    std::vector<std::array<bool, 2>> inner(ranks);
    for (const Op& op : schedule.ops) {
      if (op.kind == Kind::reduce) inner[op.to.rank][op.to.first] = true;
    }
    int both = 0;
    for (const auto& rank : inner) both += rank[0] && rank[1] ? 1 : 0;
    EXPECT_LE(both, 2) << ranks;
  }
}

TEST(Groups, AreAsAskedForElseAsSquareAsTheirNumberAllows) {
  const auto by_default = [](int ranks) { return group_of({ranks}); };
  EXPECT_EQ(by_default(1), 1);
  EXPECT_EQ(by_default(2), 2);
  EXPECT_EQ(by_default(8), 4);
  EXPECT_EQ(by_default(12), 4);
  EXPECT_EQ(by_default(13), 13);
  EXPECT_EQ(group_of({8, 1, Placement::in_place, 3}), 3);
  EXPECT_EQ(group_of({8, 1, Placement::in_place, 100}), 8);
}

}  // namespace
}  // namespace allreduce
