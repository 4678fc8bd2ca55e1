// SPDX-License-Identifier: Apache-2.0
// The streams engine on GPUs: every algorithm on the fake machine, whatever the order that its scheduler draws.
#include <gtest/gtest.h>

#include "allreduce/algorithms.hpp"
#include "allreduce/engine.hpp"
#include "tests/fake_cuda/fake_machine.hpp"
#include "tests/fake_cuda/run_and_compare.hpp"

namespace allreduce {
namespace {

using harness::Dtype;

std::string run_and_compare(const Schedule& schedule, harness::Devices& devices, std::size_t count, Dtype dtype,
                            harness::Op op, Launch launch, Direction direction = Direction::pull, bool fused = false) {
  const Pattern pattern{dtype, op, devices.size(), 7, schedule.collective, schedule.shape.root};
  const std::string wrong = fake_cuda::run_and_compare(
      pattern, {&devices, count, dtype, op, launch, {}, direction, fused}, 2, schedule.shape.placement,
      [&](const Problem& problem) { return prepare(schedule, problem); });
  return wrong.empty() ? "" : schedule.name + ' ' + wrong;
}

class OnGpus : public testing::TestWithParam<std::tuple<int, Launch, std::string, Collective>> {};

TEST_P(OnGpus, EveryAlgorithmIsExactInWhateverOrderTheWorkRuns) {
  const auto [ranks, launch, peers, collective] = GetParam();
  const std::size_t counts[] = {0, 1, 3, 17, 130};
  fake_cuda::restart({.gpus = ranks, .peers = peers});
  const auto devices = harness::open_devices("cuda");
  const bool many = peers != "0-1,2-3" && collective == Collective::allreduce;
  const int seeds = many ? 50 : 15;
  for (int seed = 0; seed < seeds; ++seed) {
    fake_cuda::reseed(seed);
    for (const Algorithm& algorithm : algorithms(collective)) {
      const auto placement = seed % 3 == 0 ? Placement::out_of_place : Placement::in_place;
      const Schedule schedule = algorithm.build({ranks, 1 + seed % 2, placement, 0, seed % ranks});
      const auto direction = seed % 2 == 0 ? Direction::pull : Direction::push;
      const bool fused = peers == "all" && seed % 4 == 3;
      ASSERT_EQ(
          run_and_compare(schedule, *devices, counts[seed % 5], Dtype::f32, harness::Op::sum, launch, direction, fused),
          "")
          << "seed " << seed;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, OnGpus,
                         testing::Combine(testing::Values(1, 2, 3, 4, 8), testing::Values(Launch::eager, Launch::graph),
                                          testing::Values("all", "none", "0-1,2-3"),
                                          testing::ValuesIn(all_collectives)));

TEST(OneGpu, CarriesEightRanksWithEveryDtypeAndOp) {
  fake_cuda::restart({.gpus = 1});
  const auto devices = harness::open_devices("cuda:0*8");
  for (const Algorithm& algorithm : algorithms()) {
    for (const Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::f16, Dtype::bf16, Dtype::i32}) {
      for (const harness::Op op :
           {harness::Op::sum, harness::Op::avg, harness::Op::min, harness::Op::max, harness::Op::prod}) {
        for (const Launch launch : {Launch::eager, Launch::graph}) {
          for (const bool fused : {false, true}) {
            EXPECT_EQ(run_and_compare(algorithm.build({8}), *devices, 257, dtype, op, launch, Direction::push, fused),
                      "")
                << name(dtype) << ' ' << name(op);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace allreduce
