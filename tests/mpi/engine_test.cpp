// SPDX-License-Identifier: Apache-2.0
// What every process of a job runs, started by mpirun (mpi_test.py): parts of the engine that no option of a bench
// reaches.
#include <gtest/gtest.h>

#include <unistd.h>

#include <memory>

#include "allreduce/algorithms.hpp"
#include "allreduce/check.hpp"
#include "allreduce/engines/mpi.hpp"

namespace allreduce {
namespace {

harness::World* world = nullptr;  // of this process; MPI begins and ends once

constexpr std::size_t count = 5003;

Schedule ring() { return find_algorithm("ring")->build({world->size(), 2, Placement::in_place}); }

Problem problem_of(harness::Devices& devices, const Buffers& buffers, std::size_t elements = count) {
  return {&devices, elements, harness::Dtype::f32, harness::Op::sum, Launch::eager, {buffers}};
}

TEST(MpiEngine, SendsALongChunkAsSeveralMessages) {
  const auto devices = harness::open_devices("cpu:1", {1, 30});
  Vectors vectors(*devices, {harness::Dtype::f32, harness::Op::sum, world->size(), 3}, count, Placement::in_place,
                  world);
  // Of 4 bytes, a size that divides no chunk, and one that no chunk reaches.
  for (const std::size_t longest : {std::size_t{4}, std::size_t{1000}, std::size_t{1} << 20}) {
    const auto program = prepare_mpi(ring(), problem_of(*devices, vectors.buffers()), *world, longest);
    for (int run = 0; run < 3; ++run) {
      const auto fault = check(*program, vectors);
      EXPECT_FALSE(fault) << longest << ": " << fault->reason;
    }
  }
}

TEST(MpiEngine, FindsAWrongRankInEveryProcess) {
  const auto devices = harness::open_devices("cpu:1", {1, 30});
  Vectors vectors(*devices, {harness::Dtype::f32, harness::Op::sum, world->size(), 3}, count, Placement::in_place,
                  world);
  const auto program = prepare_mpi(ring(), problem_of(*devices, vectors.buffers()), *world);
  vectors.refill();
  program->enqueue();
  program->sync();
  if (world->rank() == 1) reinterpret_cast<float*>(vectors.buffers().data[0])[7] += 1;
  const auto wrong = vectors.compare();
  ASSERT_TRUE(wrong);
  EXPECT_EQ(wrong->count, 1);
  EXPECT_EQ(wrong->rank, 1);
  EXPECT_EQ(wrong->first_index, 7);
}

// The last one: whose message is refused is left without it, so no other may follow. Small ones: what is longer Open
// MPI 4.1 fetches whole, beyond the end of a buffer that is too short.
TEST(MpiEngine, NamesTheOpAndBothRanksWhenAnotherSizeComes) {
  if (world->size() != 2) GTEST_SKIP() << "the third rank would wait for ever";
  const auto devices = harness::open_devices("cpu:1", {1, 5});
  auto memory = (*devices)[0].allocate(count * sizeof(float));
  const std::size_t elements = world->rank() == 0 ? 100 : 200;
  const auto program = prepare_mpi(find_algorithm("one_shot")->build({2, 1, Placement::in_place}),
                                   problem_of(*devices, {{memory.data()}}, elements), *world);
  program->enqueue();
  std::string reason;
  try {
    program->sync();
  } catch (const harness::Error& error) {
    reason = error.what();
  }
  EXPECT_NE(reason.find("(copy data"), std::string::npos) << reason;
  EXPECT_NE(reason.find("rank 0 on host0"), std::string::npos) << reason;
  EXPECT_NE(reason.find("rank 1 on host0"), std::string::npos) << reason;
  EXPECT_NE(reason.find(std::to_string(elements * sizeof(float)) + " bytes"), std::string::npos) << reason;
}

}  // namespace
}  // namespace allreduce

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  harness::World world(harness::open_mpi(harness::find_launcher(environ)));
  allreduce::world = &world;
  return RUN_ALL_TESTS();
}
