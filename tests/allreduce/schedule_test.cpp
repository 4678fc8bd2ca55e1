// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "allreduce/algorithms.hpp"
#include "allreduce/builder.hpp"
#include "allreduce/verify.hpp"
#include "harness/error.hpp"

namespace allreduce {
namespace {

TEST(Builder, ReusingScratchMakesNoScheduleLonger) {
  // A ring's rank reduces one chunk in every second level, so two places at most are ever in use.
  for (int ranks = 2; ranks <= 16; ++ranks) {
    const Schedule schedule = ring({ranks});
    EXPECT_EQ(schedule.levels(), 3 * (ranks - 1));
    for (const int places : schedule.places) EXPECT_LE(places, 2);
  }
}

TEST(Builder, OutOfPlaceNeedsNoScratchOnARing) {
  for (const int places : ring({5, 1, Placement::out_of_place}).places) EXPECT_EQ(places, 0);
}

TEST(Builder, NeverWritesToTheInput) {
  for (const Algorithm& algorithm : algorithms()) {
    for (const Op& op : algorithm.build({6, 2, Placement::out_of_place}).ops) EXPECT_NE(op.to.space, Space::input);
  }
}

TEST(Builder, KeepsEveryDependencyOnOneRank) {
  for (const Algorithm& algorithm : algorithms()) {
    const Schedule schedule = algorithm.build({7, 2});
    for (const Op& op : schedule.ops) {
      for (const OpId before : op.after) {
        const Op& other = schedule.ops[before];
        EXPECT_TRUE(op.from.rank == other.from.rank || op.from.rank == other.to.rank || op.to.rank == other.from.rank ||
                    op.to.rank == other.to.rank);
      }
    }
  }
}

TEST(Builder, RefusesShapesAndChunksThatAreNotThere) {
  EXPECT_THROW(ring({0}), harness::Error);
  EXPECT_THROW(ring({2, 0}), harness::Error);
  Builder build("test", {2}, 4);
  EXPECT_THROW(build.at(2, 0), harness::Error);
  EXPECT_THROW(build.at(0, 4), harness::Error);
  EXPECT_THROW(build.at(0, 3, 2), harness::Error);
  EXPECT_THROW(build.reduce(build.at(1, 0), 1), harness::Error);
}

TEST(Builder, FetchesAChunkAsItIsNow) {
  // Both read each other before either adds: an exchange.
  for (const Placement placement : {Placement::in_place, Placement::out_of_place}) {
    Builder build("exchange", {2, 1, placement}, 1);
    const Chunk from_0 = build.fetch(build.at(0, 0), 1);
    const Chunk from_1 = build.fetch(build.at(1, 0), 0);
    build.add(from_0);
    build.add(from_1);
    const Schedule schedule = std::move(build).finish();
    EXPECT_TRUE(verify(schedule).proved) << verify(schedule).reason;
    EXPECT_EQ(schedule.ops.size(), 4U);
    EXPECT_EQ(schedule.levels(), 2);
  }
}

TEST(Builder, AddsWhatWasFetchedOnceOnly) {
  Builder build("twice", {3}, 1);
  const Chunk fetched = build.fetch(build.at(0, 0), 1);
  build.add(fetched);
  EXPECT_THROW(build.add(fetched), harness::Error);
  Builder out_of_place("order", {3, 1, Placement::out_of_place}, 1);
  const Chunk first = out_of_place.fetch(out_of_place.at(0, 0), 1);
  const Chunk second = out_of_place.fetch(out_of_place.at(2, 0), 1);
  EXPECT_THROW(out_of_place.add(second), harness::Error);  // the own value is not beside it yet
  EXPECT_THROW(out_of_place.add(first, second), harness::Error);
}

// A hand-made schedule of two ranks that is right: rank 1's vector to rank 0, added there, and the sum back.
Schedule by_hand() {
  Schedule schedule{"by hand", {2}, 1, 1, {1, 0}, {}};
  schedule.ops = {{Kind::copy, {1, Space::data}, {0, Space::scratch}, {}, 0},
                  {Kind::reduce, {0, Space::scratch}, {0, Space::data}, {0}, 1},
                  {Kind::copy, {0, Space::data}, {1, Space::data}, {0, 1}, 2}};
  return schedule;
}

struct Fault {
  const char* what;
  void (*plant)(Schedule&);
  const char* reason;
  friend std::ostream& operator<<(std::ostream& out, const Fault& fault) { return out << fault.what; }
};

class VerifyRejects : public testing::TestWithParam<Fault> {};

TEST_P(VerifyRejects, WithAReasonThatNamesIt) {
  Schedule schedule = by_hand();
  ASSERT_TRUE(verify(schedule).proved) << verify(schedule).reason;
  GetParam().plant(schedule);
  const Verdict verdict = verify(schedule);
  EXPECT_FALSE(verdict.proved);
  EXPECT_NE(verdict.reason.find(GetParam().reason), std::string::npos) << verdict.reason;
}

INSTANTIATE_TEST_SUITE_P(
    Faults, VerifyRejects,
    testing::Values(
        Fault{"AContributionTwice",
              [](Schedule& s) {
                s.ops.insert(s.ops.begin() + 2, {Kind::reduce, {0, Space::scratch}, {0, Space::data}, {1}, 2});
                s.ops[3].after = {0, 2};
                s.ops[3].level = 3;
              },
              "adds a contribution twice"},
        Fault{"AContributionMissing", [](Schedule& s) { s.ops.erase(s.ops.begin() + 1, s.ops.end()); },
              "ends without the contribution of rank 1"},
        Fault{"TwoUnorderedWrites",
              [](Schedule& s) {
                s.ops.push_back({Kind::copy, {0, Space::data}, {1, Space::data}, {1}, 3});
              },
              "write the same chunk, unordered"},
        Fault{"AReadBeforeTheWrite", [](Schedule& s) { s.ops[2].after = {}; }, "unordered"},
        Fault{"AWriteBeforeTheRead", [](Schedule& s) { s.ops[1].after = {}; }, "unordered"},
        Fault{"ScratchThatWasNeverWritten",
              [](Schedule& s) {
                s.places[0] = 2;
                s.ops[1].from.first = 1;
              },
              "reads scratch that was never written"},
        Fault{"ACycle", [](Schedule& s) { s.ops[0].after = {2}; }, "cycle"},
        Fault{"AReduceAcrossRanks",
              [](Schedule& s) {
                s.ops[1].from.rank = 1;
                s.places[1] = 1;
              },
              "reduces across ranks"},
        Fault{"ARankThatIsNotThere", [](Schedule& s) { s.ops[0].from.rank = 2; }, "names a rank that is not there"},
        Fault{"PiecesThatAreNotThere", [](Schedule& s) { s.ops[0].from.first = 1; }, "names pieces that are not there"},
        Fault{"FewerPlacesThanNone", [](Schedule& s) { s.places[1] = -1; }, "cannot have -1 scratch places"},
        Fault{"MorePiecesOfScratchThanCanBeCounted", [](Schedule& s) { s.scratch_width = s.places[0] = 1 << 20; },
              "cannot have 1048576 scratch places of 1048576 pieces"},
        Fault{"MoreRanksThanPlaces", [](Schedule& s) { s.shape.ranks = 1 << 30; }, "do not describe a schedule"},
        Fault{"AWriteToTheInput", [](Schedule& s) { s.ops[2].to.space = Space::input; }, "writes to the input"}),
    [](const auto& row) { return std::string(row.param.what); });

TEST(Verify, FindsChunksThatLandInTheWrongPlace) {
  Schedule schedule{"swapped", {2}, 2, 1, {0, 0}, {}};
  schedule.ops = {{Kind::copy, {1, Space::data, 0}, {0, Space::data, 1}, {}, 0}};
  EXPECT_NE(verify(schedule).reason.find("brings piece 0 to the place of piece 1"), std::string::npos);
}

TEST(Verify, FindsRanksThatAddInDifferentOrders) {
  // Three ranks; 0 and 1 each add everything, in orders of their own.
  Builder build("orders", {3}, 1);
  build.reduce(build.at(1, 0), 0);
  build.reduce(build.at(2, 0), 0);
  const Schedule schedule = std::move(build).finish();
  EXPECT_FALSE(verify(schedule).proved);
  Schedule both{"orders", {3}, 1, 1, {2, 2, 2}, {}};
  for (const Rank rank : {0, 1, 2}) {
    const Rank first = (rank + 1) % 3;
    const Rank second = (rank + 2) % 3;
    both.ops.push_back({Kind::copy, {first, Space::data}, {rank, Space::scratch, 0}, {}, 0});
    both.ops.push_back({Kind::copy, {second, Space::data}, {rank, Space::scratch, 1}, {}, 0});
  }
  for (const Rank rank : {0, 1, 2}) {
    both.ops.push_back({Kind::reduce, {rank, Space::scratch, 0}, {rank, Space::data}, {0, 1, 2, 3, 4, 5}, 1});
  }
  for (const Rank rank : {0, 1, 2}) {
    both.ops.push_back({Kind::reduce, {rank, Space::scratch, 1}, {rank, Space::data}, {6, 7, 8}, 2});
  }
  EXPECT_NE(verify(both).reason.find("in different orders"), std::string::npos) << verify(both).reason;
}

TEST(Verify, NamesTheReducesThatCompleteAChunk) {
  // On a ring each chunk is completed once; the server completes its one chunk once.
  EXPECT_EQ(verify(ring({5})).completing.size(), 5U);
  EXPECT_EQ(verify(parameter_server({5})).completing.size(), 1U);
  EXPECT_EQ(verify(tree({5})).completing.size(), 1U);
}

}  // namespace
}  // namespace allreduce
