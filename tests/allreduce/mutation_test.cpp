// SPDX-License-Identifier: Apache-2.0
// Attacks on the proof and on the engine: every schedule of the catalogue, damaged in every small way there is. What
// `verify` still accepts must be exact under any interleaving, and every wait that the engine makes must be needed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "allreduce/algorithms.hpp"
#include "allreduce/builder.hpp"
#include "allreduce/values.hpp"
#include "allreduce/verify.hpp"
#include "tests/allreduce/overlapped_runs.hpp"
#include "tests/sanitized.hpp"

namespace allreduce {
namespace {

constexpr int interleavings = sanitized ? 5 : 50;
constexpr int most_ranks = sanitized ? 4 : 6;

using Judge = std::function<void(const Schedule&)>;

Schedule without_op(Schedule schedule, OpId id) {
  schedule.ops.erase(schedule.ops.begin() + id);
  for (Op& op : schedule.ops) {
    std::erase(op.after, id);
    for (OpId& before : op.after) before -= before > id ? 1 : 0;
  }
  return schedule;
}

void swap_ranks(Op& op, Rank a, Rank b) {
  for (Chunk* chunk : {&op.from, &op.to}) {
    if (chunk->rank == a || chunk->rank == b) chunk->rank = a + b - chunk->rank;
  }
}

// One op less, one dependency less, two ranks swapped in one op, two ranks swapped in all of them.
void mutate(const Schedule& whole, const Judge& judge) {
  for (OpId id = 0; id < static_cast<OpId>(whole.ops.size()); ++id) {
    judge(without_op(whole, id));
    for (const OpId before : whole.ops[id].after) {
      Schedule loose = whole;
      std::erase(loose.ops[id].after, before);
      judge(loose);
    }
  }
  for (Rank a = 0; a < whole.shape.ranks; ++a) {
    for (Rank b = a + 1; b < whole.shape.ranks; ++b) {
      for (std::size_t id = 0; id < whole.ops.size(); ++id) {
        Schedule swapped = whole;
        swap_ranks(swapped.ops[id], a, b);
        if (swapped.ops[id].from != whole.ops[id].from || swapped.ops[id].to != whole.ops[id].to) judge(swapped);
      }
      Schedule renamed = whole;
      for (Op& op : renamed.ops) swap_ranks(op, a, b);
      std::swap(renamed.places[a], renamed.places[b]);
      judge(renamed);
    }
  }
}

// Runs over the same vectors, of which nothing is said: each must follow the one before, whose sum it adds up again.
void expect_to_follow_itself(const Schedule& schedule, RandomDevices& devices) {
  const int ranks = devices.size();
  const auto count = static_cast<std::size_t>(schedule.chunks);
  const Pattern pattern{harness::Dtype::i32, harness::Op::sum, ranks, 7};
  std::vector<harness::Buffer> memory;
  const auto vector = [&](int rank) {
    memory.push_back(devices[rank].allocate(count * sizeof(std::int32_t)));
    return memory.back().data();
  };
  Buffers buffers;
  for (int rank = 0; rank < ranks; ++rank) {
    buffers.data.push_back(vector(rank));
    if (schedule.shape.placement == Placement::out_of_place) buffers.input.push_back(vector(rank));
  }
  const bool in_place = buffers.input.empty();
  const auto program =
      prepare_streams(schedule, {&devices, count, pattern.dtype, pattern.op, Launch::eager, {buffers}});
  for (int seed = 0; seed < interleavings; ++seed) {
    for (int rank = 0; rank < ranks; ++rank) {
      fill(pattern, rank, in_place ? buffers.data[rank] : const_cast<std::byte*>(buffers.input[rank]), count);
    }
    devices.restart(seed);
    for (int run = 0; run < 3; ++run) program->enqueue();
    program->sync();
    for (int rank = 0; rank < ranks; ++rank) {
      for (std::size_t index = 0; index < count; ++index) {
        std::int32_t got;
        std::memcpy(&got, buffers.data[rank] + index * sizeof got, sizeof got);
        const auto once = reduced(pattern, index);
        ASSERT_EQ(got, static_cast<std::int32_t>(in_place ? once * ranks * ranks : once)) << "seed " << seed;
      }
    }
  }
}

class EverySchedule : public testing::TestWithParam<std::tuple<Algorithm, int, Placement>> {
 protected:
  Schedule schedule(int pieces = 1) const {
    const auto& [algorithm, ranks, placement] = GetParam();
    return algorithm.build({ranks, pieces, placement});
  }
  RandomDevices devices_{std::get<1>(GetParam())};
};
class EveryAllReduce : public EverySchedule {};

TEST_P(EverySchedule, IsExactUnderManyInterleavings) {
  for (const Launch launch : {Launch::eager, Launch::graph}) {
    for (const int pieces : {1, 2}) {
      OverlappedRuns runs(devices_, schedule(pieces), launch);
      for (int seed = 0; seed < interleavings; ++seed) ASSERT_EQ(runs(seed), "");
    }
  }
}

TEST_P(EveryAllReduce, FollowsItselfWhenNoVectorIsSaidToBeReady) { expect_to_follow_itself(schedule(), devices_); }

// Added up on rank 0 and sent back along a chain: rank 0 then waits for rank 1 alone, and reads the others' vectors
// again only in the next run.
TEST(Streams, FollowThemselvesAlsoWhereAnEndIsFarFromItsNextReader) {
  for (const Placement placement : {Placement::in_place, Placement::out_of_place}) {
    Builder build("star and chain", {4, 1, placement}, 1);
    for (const Rank rank : {1, 2, 3}) build.reduce(build.at(rank, 0), 0);
    for (const Rank rank : {0, 1, 2}) build.copy(build.at(rank, 0), rank + 1);
    RandomDevices devices(4);
    expect_to_follow_itself(std::move(build).finish(), devices);
  }
}

TEST_P(EverySchedule, IsExactOnceMutatedOrRejected) {
  int accepted = 0;
  int rejected = 0;
  mutate(schedule(), [&](const Schedule& mutant) {
    if (!verify(mutant).proved) {
      ++rejected;
      return;
    }
    ++accepted;
    OverlappedRuns runs(devices_, mutant, Launch::eager);
    for (int seed = 0; seed < interleavings; ++seed) ASSERT_EQ(runs(seed), "");
  });
  const auto& [algorithm, ranks, _] = GetParam();
  if (algorithm.collective == Collective::allreduce) {
    EXPECT_GE(accepted, ranks * (ranks - 1) / 2);  // two ranks swapped everywhere
  }
  EXPECT_GT(rejected, 0);  // a missing op
}

// Leaving out one wait must be seen, unless the others imply it; and then it must not. (Where a rank brings nothing or
// is owed nothing, no result shows whether its vector was waited for.)
TEST_P(EverySchedule, NeedsEveryWaitThatTheEngineMakes) {
  const bool shows_all = !has_root(std::get<0>(GetParam()).collective);
  for (const Launch launch : {Launch::eager, Launch::graph}) {
    OverlappedRuns runs(devices_, schedule(), launch);
    ASSERT_EQ(runs(0), "");
    const std::size_t waits = devices_.waits();
    ASSERT_GT(waits, 0U);
    std::size_t needed = 0;
    for (std::size_t wait = 0; wait < waits; ++wait) {
      std::string wrong = runs(1, wait);
      const bool implied = devices_.implied(wait);
      for (int seed = 2; seed <= (implied ? 5 : interleavings) && wrong.empty(); ++seed) wrong = runs(seed, wait);
      EXPECT_TRUE(wrong.empty() ? implied || !shows_all : !implied)
          << "wait " << wait << " of " << waits << ' ' << wrong;
      needed += wrong.empty() ? 0 : 1;
    }
    EXPECT_GT(needed, 0U);
  }
}

std::string name_of(const testing::TestParamInfo<EverySchedule::ParamType>& info) {
  const auto& [algorithm, ranks, placement] = info.param;
  return std::string(name(algorithm.collective)) + "_" + std::string(algorithm.name) + "_of_" + std::to_string(ranks) +
         (placement == Placement::in_place ? "_in_place" : "_out_of_place");
}

auto shapes_of(const std::vector<Algorithm>& rows, int fewest = 2, int most = most_ranks) {
  return testing::Combine(testing::ValuesIn(rows), testing::Range(fewest, most + 1),
                          testing::Values(Placement::in_place, Placement::out_of_place));
}

std::vector<Algorithm> all_rows() {
  std::vector<Algorithm> rows;
  for (const Collective collective : all_collectives) {
    rows.insert(rows.end(), algorithms(collective).begin(), algorithms(collective).end());
  }
  return rows;
}

INSTANTIATE_TEST_SUITE_P(Catalogue, EverySchedule, shapes_of(all_rows()), name_of);
INSTANTIATE_TEST_SUITE_P(Slow, EverySchedule, shapes_of(all_rows(), most_ranks + 1, 8), name_of);
INSTANTIATE_TEST_SUITE_P(Catalogue, EveryAllReduce, shapes_of({algorithms().begin(), algorithms().end()}), name_of);

}  // namespace
}  // namespace allreduce
