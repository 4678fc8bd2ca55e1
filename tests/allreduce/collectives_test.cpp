// SPDX-License-Identifier: Apache-2.0
// The collectives beside all-reduce: the same builder, proof and engines, other things owed at the end.
#include <gtest/gtest.h>

#include "allreduce/algorithms.hpp"
#include "allreduce/builder.hpp"
#include "allreduce/check.hpp"
#include "allreduce/cost.hpp"
#include "allreduce/engine.hpp"
#include "allreduce/values.hpp"
#include "allreduce/verify.hpp"
#include "harness/error.hpp"
#include "tests/allreduce/common.hpp"

namespace allreduce {
namespace {

constexpr Collective others[] = {Collective::reduce_scatter, Collective::all_gather, Collective::broadcast,
                                 Collective::reduce};

class EachCollective : public testing::TestWithParam<Collective> {};

TEST_P(EachCollective, IsProvedForOneToSixtyFourRanksAndEveryRoot) {
  for (const Algorithm& algorithm : algorithms(GetParam())) {
    for (int ranks = 1; ranks <= 64; ++ranks) {
      for (const Placement placement : placements) {
        const Verdict verdict = verify(algorithm.build({ranks, 2, placement}));
        EXPECT_TRUE(verdict.proved) << algorithm.name << " of " << ranks << ": " << verdict.reason;
      }
      for (Rank root = 0; root < ranks && ranks < 10; ++root) {
        const Verdict verdict = verify(algorithm.build({ranks, 1, Placement::in_place, 0, root}));
        EXPECT_TRUE(verdict.proved) << algorithm.name << " of " << ranks << " from " << root << ": " << verdict.reason;
      }
    }
  }
}

// Every way that a schedule is run on CPU devices.
struct Preparation {
  Launch launch;
  Direction direction = Direction::pull;
  bool fused = false;
  std::unique_ptr<Program> (*prepare)(const Schedule&, const Problem&) = prepare_streams;
};
constexpr Preparation ways[] = {{Launch::eager},
                                {Launch::eager, Direction::push},
                                {Launch::eager, Direction::pull, true},
                                {Launch::graph},
                                {Launch::graph, Direction::pull, false, prepare_compiled}};

TEST_P(EachCollective, IsExactOnDevicesInEveryWay) {
  for (const int ranks : {1, 2, 3, 5}) {
    const auto devices = harness::open_devices("cpu:" + std::to_string(ranks), {1, 30});
    for (const Placement placement : placements) {
      for (const std::size_t count : {0, 1, 3, 17, 5003}) {
        for (const harness::Op op : {harness::Op::avg, harness::Op::prod}) {
          const Shape shape{ranks, 2, placement, 0, ranks - 1};
          Vectors vectors(*devices, {harness::Dtype::f32, op, ranks, 7, GetParam(), shape.root}, count, placement);
          for (const Algorithm& algorithm : algorithms(GetParam())) {
            const Schedule schedule = algorithm.build(shape);
            for (const Preparation& way : ways) {
              const auto program = way.prepare(schedule, {devices.get(),
                                                          count,
                                                          harness::Dtype::f32,
                                                          op,
                                                          way.launch,
                                                          {vectors.buffers()},
                                                          way.direction,
                                                          way.fused});
              const auto fault = check(*program, vectors);
              EXPECT_FALSE(fault) << schedule.name << " of " << ranks << ", " << count << ": " << fault->reason;
            }
          }
        }
      }
    }
  }
}

// Out of place runs may follow each other without a wait.
TEST_P(EachCollective, StaysExactOverManyRunsBackToBack) {
  constexpr int ranks = 4;
  const auto devices = harness::open_devices("cpu:" + std::to_string(ranks), {1, 30});
  const Shape shape{ranks, 1, Placement::out_of_place, 0, 1};
  const Pattern pattern{harness::Dtype::f32, harness::Op::sum, ranks, 7, GetParam(), shape.root};
  for (const std::size_t count : {17, 5003}) {
    Vectors vectors(*devices, pattern, count, shape.placement);
    for (const Algorithm& algorithm : algorithms(GetParam())) {
      for (const Preparation& way : ways) {
        const auto program = way.prepare(algorithm.build(shape), {devices.get(),
                                                                  count,
                                                                  pattern.dtype,
                                                                  pattern.op,
                                                                  way.launch,
                                                                  {vectors.buffers()},
                                                                  way.direction,
                                                                  way.fused});
        vectors.refill();
        EXPECT_GT(program->time(20), 0);
        EXPECT_FALSE(vectors.compare()) << algorithm.name;
      }
    }
  }
}

TEST_P(EachCollective, OwesInPiecesWhatTheCheckWantsInElements) {
  for (int ranks = 1; ranks <= 9; ++ranks) {
    const Shape shape{ranks, 3, Placement::in_place, 0, ranks / 2};
    const Schedule schedule = algorithms(GetParam())[0].build(shape);
    for (const std::size_t count : {std::size_t{0}, std::size_t{2}, std::size_t{10007}, std::size_t{3} << 20}) {
      for (Rank rank = 0; rank < ranks; ++rank) {
        const auto [first, pieces] = schedule.owes(rank);
        const Part part = owed({harness::Dtype::f32, harness::Op::sum, ranks, 1, GetParam(), shape.root}, rank, count);
        EXPECT_EQ(boundary(schedule, count, first, 4), part.first);
        EXPECT_EQ(boundary(schedule, count, first + pieces, 4), part.first + part.count);
      }
    }
  }
}

TEST_P(EachCollective, HasItsName) {
  EXPECT_EQ(parse_collective(name(GetParam())), GetParam());
  EXPECT_THROW(parse_collective("scatter"), harness::Error);
  for (const Algorithm& algorithm : algorithms(GetParam())) {
    EXPECT_EQ(find_algorithm(algorithm.name, GetParam()), &algorithm);
    EXPECT_EQ(algorithm.build({3}).collective, GetParam());
    EXPECT_EQ(algorithm.build({3}).name, algorithm.name);
  }
}

TEST_P(EachCollective, CallsBusBandwidthLinkSpeedOnlyWhereNoRankSendsMore) {
  int rows = 0;
  for (const Algorithm& algorithm : algorithms(GetParam())) {
    if (!algorithm.busbw_is_link_speed) continue;
    ++rows;
    for (int ranks = 2; ranks <= 40; ++ranks) {
      const Cost total = cost(algorithm.build({ranks}));
      EXPECT_NEAR(total.sent, *busbw_factor(GetParam(), ranks), 1e-9) << algorithm.name << ' ' << ranks;
      EXPECT_NEAR(total.received, *busbw_factor(GetParam(), ranks), 1e-9) << algorithm.name << ' ' << ranks;
    }
  }
  EXPECT_GT(rows, 0);
}

INSTANTIATE_TEST_SUITE_P(Catalogue, EachCollective, testing::ValuesIn(others),
                         [](const auto& row) { return std::string(name(row.param)); });

TEST(Collectives, TakeTheStepsAndBytesOfTheirPapers) {
  for (int ranks = 2; ranks <= 33; ++ranks) {
    int log2 = 0;
    while ((1 << log2) < ranks) ++log2;
    for (const Collective collective : {Collective::reduce_scatter, Collective::all_gather}) {
      EXPECT_EQ(cost(find_algorithm("ring", collective)->build({ranks})).steps, ranks - 1);
      EXPECT_EQ(cost(find_algorithm("direct", collective)->build({ranks})).steps, 1);
      EXPECT_LE(cost(find_algorithm("dissemination", collective)->build({ranks})).steps, log2);
    }
    for (const Collective collective : {Collective::broadcast, Collective::reduce}) {
      EXPECT_LE(cost(find_algorithm("tree", collective)->build({ranks})).steps, log2);
      EXPECT_EQ(cost(find_algorithm("ring", collective)->build({ranks})).steps, ranks - 1);
    }
    EXPECT_DOUBLE_EQ(cost(direct_broadcast({ranks})).sent, ranks - 1);
    EXPECT_DOUBLE_EQ(cost(direct_reduce({ranks})).received, ranks - 1);
  }
}

TEST(Collectives, SlicesBeginAtTheirEvenShareExactly) {
  const Schedule schedule = ring_all_gather({3, 2});
  for (const std::size_t count : {std::size_t{0}, std::size_t{2}, std::size_t{10000}, std::size_t{3} << 20}) {
    for (int slice = 0; slice <= 3; ++slice) EXPECT_EQ(boundary(schedule, count, 2 * slice, 4), count * slice / 3);
    for (int chunk = 0; chunk < 6; ++chunk) {
      EXPECT_LE(boundary(schedule, count, chunk, 4), boundary(schedule, count, chunk + 1, 4));
    }
  }
}

TEST(Builder, RefusesWhatACollectiveDoesNotHave) {
  EXPECT_THROW(tree_broadcast({3, 1, Placement::in_place, 0, 3}), harness::Error);
  EXPECT_THROW(Builder("slices", {3}, 4, Collective::all_gather), harness::Error);
  Builder build("nothing there", {2}, 1, Collective::broadcast);
  EXPECT_THROW(build.copy(build.at(1, 0), 0), harness::Error);
  EXPECT_THROW(build.reduce(build.at(0, 0), 1), harness::Error);
}

TEST(Verify, WantsOfEachCollectiveWhatItOwesNoMoreAndNoLess) {
  Schedule schedule = ring({3});
  schedule.collective = Collective::reduce_scatter;  // whose part an all-reduce does too
  EXPECT_TRUE(verify(schedule).proved) << verify(schedule).reason;
  schedule = ring_reduce_scatter({3});
  schedule.collective = Collective::allreduce;
  EXPECT_NE(verify(schedule).reason.find("ends without the contribution"), std::string::npos);
  schedule = direct_reduce({3});
  schedule.shape.root = 1;
  EXPECT_NE(verify(schedule).reason.find("rank 1 ends without the contribution of rank 0"), std::string::npos);
  schedule = tree_broadcast({3});
  schedule.shape.root = 1;
  EXPECT_NE(verify(schedule).reason.find("never written"), std::string::npos) << verify(schedule).reason;
  schedule = direct_all_gather({3});
  schedule.ops.pop_back();
  EXPECT_NE(verify(schedule).reason.find("ends without anything in chunk"), std::string::npos);
  schedule = one_shot({3});
  schedule.collective = Collective::all_gather;
  EXPECT_FALSE(verify(schedule).proved);
}

TEST(Collectives, HaveTheBusBandwidthFactorsOfNcclTests) {
  EXPECT_EQ(busbw_factor(Collective::allreduce, 4), 1.5);
  EXPECT_EQ(busbw_factor(Collective::reduce_scatter, 4), 0.75);
  EXPECT_EQ(busbw_factor(Collective::all_gather, 4), 0.75);
  EXPECT_EQ(busbw_factor(Collective::broadcast, 4), 1);
  EXPECT_EQ(busbw_factor(Collective::reduce, 4), 1);
  EXPECT_EQ(busbw_factor(Collective::all_to_all, 4), 0.75);
  EXPECT_EQ(busbw_factor(Collective::send_recv, 4), 1);
  EXPECT_EQ(busbw_factor(Collective::reduce, 1), std::nullopt);
}

TEST(Collectives, ThatMoveOtherSlicesToEachRankHaveAnAnswerForEach) {
  constexpr int ranks = 3;
  constexpr std::size_t count = 6;
  Pattern pattern{harness::Dtype::i32, harness::Op::sum, ranks, 5, Collective::all_to_all};
  for (int rank = 0; rank < ranks; ++rank) {
    for (std::size_t index = 0; index < count; ++index) {
      const int from = static_cast<int>(index / 2);
      EXPECT_EQ(answer(pattern, rank, index, count), contribution(pattern, from, 2 * rank + index % 2));
    }
  }
  pattern.collective = Collective::send_recv;
  for (std::size_t index = 0; index < count; ++index) {
    EXPECT_EQ(answer(pattern, 0, index, count), contribution(pattern, 2, index));
    EXPECT_EQ(answer(pattern, 1, index, count), contribution(pattern, 0, index));
  }
}

}  // namespace
}  // namespace allreduce
