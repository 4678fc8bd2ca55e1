// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "allreduce/algorithms.hpp"
#include "allreduce/engine.hpp"
#include "allreduce/values.hpp"
#include "allreduce/verify.hpp"
#include "tests/allreduce/common.hpp"

namespace allreduce {
namespace {

using harness::Dtype;

// The vectors of `sets` all-reduces, in device memory.
struct Vectors {
  std::vector<harness::Buffer> memory;
  std::vector<Buffers> sets;

  Vectors(harness::Devices& devices, std::size_t bytes, bool in_place, int count) {
    for (int set = 0; set < count; ++set) {
      Buffers buffers;
      for (int rank = 0; rank < devices.size(); ++rank) {
        memory.push_back(devices[rank].allocate(bytes));
        buffers.data.push_back(memory.back().data());
        if (in_place) continue;
        memory.push_back(devices[rank].allocate(bytes));
        buffers.input.push_back(memory.back().data());
      }
      sets.push_back(buffers);
    }
  }
};

// Every way that a schedule is run on CPU devices.
enum class Way { eager, recorded, compiled };

std::unique_ptr<Program> prepare_way(Way way, const Schedule& schedule, Problem problem) {
  problem.launch = way == Way::eager ? Launch::eager : Launch::graph;
  return way == Way::compiled ? prepare_compiled(schedule, problem) : prepare_streams(schedule, problem);
}

// Runs `schedule` three times over two sets of vectors and compares every element on every rank.
std::string run_and_compare(const Schedule& schedule, harness::Devices& devices, std::size_t count, Dtype dtype,
                            harness::Op op, Way way) {
  const bool in_place = schedule.shape.placement == Placement::in_place;
  const Pattern pattern{dtype, op, devices.size(), 7};
  Vectors vectors(devices, count * size_of(dtype), in_place, 2);
  const auto program = prepare_way(way, schedule, {&devices, count, dtype, op, Launch::eager, vectors.sets});
  const auto refill = [&](int set) {
    for (int rank = 0; rank < devices.size(); ++rank) {
      Buffers& buffers = vectors.sets[set];
      fill(pattern, rank, in_place ? buffers.data[rank] : const_cast<std::byte*>(buffers.input[rank]), count);
    }
  };
  refill(0);
  refill(1);
  for (int run = 0; run < 3; ++run) {
    program->enqueue();
    program->sync();
    for (int rank = 0; rank < devices.size(); ++rank) {
      if (const auto wrong = compare(pattern, rank, vectors.sets[run % 2].data[rank], count)) {
        return schedule.name + " run " + std::to_string(run) + " rank " + std::to_string(rank) + " element " +
               std::to_string(wrong->first_index) + ": " + std::to_string(wrong->got) + " instead of " +
               std::to_string(wrong->expected);
      }
    }
    refill(run % 2);
  }
  return "";
}

class EveryAlgorithm : public testing::TestWithParam<std::tuple<int, Way, Placement>> {};

TEST_P(EveryAlgorithm, IsExactForOddCountsAndDtypesAndOps) {
  const auto [ranks, way, placement] = GetParam();
  const auto devices = harness::open_devices("cpu:" + std::to_string(ranks), {1, 30});
  for (const Algorithm& algorithm : algorithms()) {
    for (const std::size_t count :
         {std::size_t{0}, std::size_t{1}, std::size_t{3}, std::size_t{17}, std::size_t{5003}}) {
      for (const int pieces : {1, 2}) {
        const Schedule schedule = algorithm.build({ranks, pieces, placement});
        EXPECT_EQ(run_and_compare(schedule, *devices, count, Dtype::f32, harness::Op::sum, way), "");
      }
    }
    const Schedule schedule = algorithm.build({ranks, 1, placement});
    for (const Dtype dtype : dtypes) {
      for (const harness::Op op : all_ops) {
        EXPECT_EQ(run_and_compare(schedule, *devices, 257, dtype, op, way), "") << name(dtype) << ' ' << name(op);
      }
    }
  }
}

// The maximum of results is the result: runs may follow each other without new contributions, and without a wait.
TEST_P(EveryAlgorithm, StaysExactOverManyRunsBackToBack) {
  const auto [ranks, way, placement] = GetParam();
  const auto devices = harness::open_devices("cpu:" + std::to_string(ranks), {1, 30});
  const Pattern pattern{Dtype::f32, harness::Op::max, ranks, 7};
  for (const Algorithm& algorithm : algorithms()) {
    const Schedule schedule = algorithm.build({ranks, 1, placement});
    for (const std::size_t count : {std::size_t{17}, std::size_t{5003}}) {
      Vectors vectors(*devices, count * sizeof(float), placement == Placement::in_place, 2);
      const auto program =
          prepare_way(way, schedule, {devices.get(), count, Dtype::f32, harness::Op::max, Launch::eager, vectors.sets});
      for (const Buffers& set : vectors.sets) {
        for (int rank = 0; rank < ranks; ++rank) {
          auto* given = set.input.empty() ? set.data[rank] : const_cast<std::byte*>(set.input[rank]);
          fill(pattern, rank, given, count);
        }
      }
      program->time(20);
      for (int run = 0; run < 21; ++run) program->enqueue();
      program->sync();
      for (const Buffers& set : vectors.sets) {
        for (int rank = 0; rank < ranks; ++rank) EXPECT_FALSE(compare(pattern, rank, set.data[rank], count));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, EveryAlgorithm,
                         testing::Combine(testing::Values(1, 2, 3, 4, 5, 8),
                                          testing::Values(Way::eager, Way::recorded, Way::compiled),
                                          testing::Values(Placement::in_place, Placement::out_of_place)));

TEST(Streams, RefuseAScheduleThatIsNotProved) {
  const auto devices = harness::open_devices("cpu:2", {1, 30});
  Schedule schedule = ring({2});
  schedule.ops.pop_back();
  Vectors vectors(*devices, 64, true, 1);
  EXPECT_THROW(
      prepare_streams(schedule, {devices.get(), 16, Dtype::f32, harness::Op::sum, Launch::eager, vectors.sets}),
      harness::Error);
}

TEST(Streams, RefuseTheWrongNumberOfDevicesOrVectors) {
  const auto devices = harness::open_devices("cpu:2", {1, 30});
  Vectors vectors(*devices, 64, true, 1);
  EXPECT_THROW(
      prepare_streams(ring({3}), {devices.get(), 16, Dtype::f32, harness::Op::sum, Launch::eager, vectors.sets}),
      harness::Error);
  EXPECT_THROW(prepare_streams(ring({2}), {devices.get(), 16, Dtype::f32, harness::Op::sum, Launch::eager, {}}),
               harness::Error);
}

TEST(Streams, TimeIsPositiveAndGrowsWithTheVector) {
  const auto devices = harness::open_devices("cpu:2", {1, 30});
  const auto seconds = [&](std::size_t bytes) {
    Vectors vectors(*devices, bytes, true, 1);
    for (std::byte* data : vectors.sets[0].data) std::memset(data, 0, bytes);
    const auto program = prepare_streams(
        ring({2}), {devices.get(), bytes / 4, Dtype::f32, harness::Op::sum, Launch::eager, vectors.sets});
    program->time(3);
    return program->time(5);
  };
  const double small = seconds(1024);
  EXPECT_GT(small, 0);
  EXPECT_GT(seconds(64 << 20), small);
}

TEST(Values, EveryPartialResultIsExact) {
  for (const Dtype dtype : dtypes) {
    const int bits = dtype == Dtype::bf16  ? 8
                     : dtype == Dtype::f16 ? 11
                     : dtype == Dtype::f32 ? 24
                     : dtype == Dtype::f64 ? 53
                                           : 30;
    for (const harness::Op op : {harness::Op::sum, harness::Op::avg}) {
      for (const int ranks : {1, 2, 7, 16, 17, 31, 255, 300, 1024}) {
        bool any = false;
        for (std::size_t index = 0; index < 200; ++index) {
          std::int64_t sum = 0;
          for (int rank = 0; rank < ranks; ++rank) sum += std::abs(contribution({dtype, op, ranks, 3}, rank, index));
          ASSERT_LE(sum, std::int64_t{1} << bits) << name(dtype) << ' ' << name(op) << ' ' << ranks;
          any = any || sum != 0;
        }
        // No multiple of more than 256 ranks has 8 bits; the reals are left to such an average.
        EXPECT_EQ(any, op == harness::Op::sum || ranks <= 1 << bits) << name(dtype) << ' ' << ranks;
      }
    }
  }
}

TEST(Values, OneWrongElementIsFoundAndNamed) {
  for (const Dtype dtype : dtypes) {
    for (const harness::Op op : all_ops) {
      const Pattern pattern{dtype, op, 1, 5};
      std::vector<std::byte> memory(100 * size_of(dtype));
      fill(pattern, 0, memory.data(), 100);
      EXPECT_FALSE(compare(pattern, 0, memory.data(), 100));
      fill({dtype, op, 1, 5}, 0, memory.data(), 100);
      std::byte* element = memory.data() + 41 * size_of(dtype);
      std::memset(element, 0x33, size_of(dtype));
      const auto wrong = compare(pattern, 0, memory.data(), 100);
      ASSERT_TRUE(wrong) << name(dtype) << ' ' << name(op);
      EXPECT_EQ(wrong->count, 1);
      EXPECT_EQ(wrong->first_index, 41);
    }
  }
}

TEST(Boundary, CutsEveryCountIntoPiecesThatFollowEachOther) {
  for (const std::size_t count : {std::size_t{0}, std::size_t{3}, std::size_t{1000}, std::size_t{1} << 20}) {
    for (const int chunks : {1, 3, 8}) {
      EXPECT_EQ(boundary(count, chunks, 0, 4), 0U);
      EXPECT_EQ(boundary(count, chunks, chunks, 4), count);
      for (int chunk = 0; chunk < chunks; ++chunk) {
        EXPECT_LE(boundary(count, chunks, chunk, 4), boundary(count, chunks, chunk + 1, 4));
      }
    }
  }
}

}  // namespace
}  // namespace allreduce
