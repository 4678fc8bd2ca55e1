// SPDX-License-Identifier: Apache-2.0
// The streams engine on GPUs: every algorithm on the fake machine, whatever the order that its scheduler draws.
#include <gtest/gtest.h>

#include "allreduce/algorithms.hpp"
#include "allreduce/engine.hpp"
#include "allreduce/values.hpp"
#include "tests/fake_cuda/fake_machine.hpp"

namespace allreduce {
namespace {

using harness::Dtype;

// Two collectives in flight over two sets of vectors, then every element of every rank. "" when all are exact.
std::string run_and_compare(const Schedule& schedule, harness::Devices& devices, std::size_t count, Dtype dtype,
                            harness::Op op, Launch launch, Direction direction = Direction::pull, bool fused = false) {
  const bool in_place = schedule.shape.placement == Placement::in_place;
  const Pattern pattern{dtype, op, devices.size(), 7, schedule.collective, schedule.shape.root};
  const std::size_t bytes = count * harness::size_of(dtype);
  std::vector<harness::Buffer> memory;
  std::vector<Buffers> sets(2);
  std::vector<std::unique_ptr<harness::Stream>> users;
  std::vector<std::byte> host(bytes);
  std::vector<harness::Event> ready;
  const auto take = [&](int rank) {
    memory.push_back(devices[rank].allocate(bytes));
    return memory.back().data();
  };
  for (int rank = 0; rank < devices.size(); ++rank) {
    users.push_back(devices[rank].make_stream());
    for (Buffers& set : sets) {
      set.data.push_back(take(rank));
      if (!in_place) set.input.push_back(take(rank));
    }
  }
  const auto program = prepare(schedule, {&devices, count, dtype, op, launch, sets, direction, fused});
  for (int rank = 0; rank < devices.size(); ++rank) {
    fill(pattern, rank, host.data(), count);
    for (const Buffers& set : sets) {
      users[rank]->copy(host.data(), in_place ? set.data[rank] : const_cast<std::byte*>(set.input[rank]), bytes);
    }
    users[rank]->sync();
    ready.push_back(users[rank]->record());
  }
  const auto first = program->enqueue(ready), second = program->enqueue(ready);
  std::string wrong;
  for (int rank = 0; rank < devices.size(); ++rank) {
    for (const auto& [set, ended] : {std::pair{&sets[0], first[rank]}, std::pair{&sets[1], second[rank]}}) {
      users[rank]->wait(ended);
      users[rank]->copy(set->data[rank], host.data(), bytes);
      users[rank]->sync();
      if (const auto found = compare(pattern, rank, host.data(), count)) {
        wrong = schedule.name + " rank " + std::to_string(rank) + " element " + std::to_string(found->first_index) +
                ": " + std::to_string(found->got) + " instead of " + std::to_string(found->expected);
      }
    }
  }
  program->sync();
  return wrong;
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
