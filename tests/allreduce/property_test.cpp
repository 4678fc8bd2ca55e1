// SPDX-License-Identifier: Apache-2.0
// What must hold of any schedule at all: the proof ends with a verdict on whatever it is given, also on what no builder
// would make, and what it accepts is exact.
#include <gtest/gtest.h>

#include <algorithm>
#include <climits>
#include <numeric>
#include <random>

#include "allreduce/algorithms.hpp"
#include "allreduce/builder.hpp"
#include "allreduce/verify.hpp"
#include "tests/allreduce/overlapped_runs.hpp"
#include "tests/sanitized.hpp"

namespace allreduce {
namespace {

constexpr int schedules = sanitized ? 1000 : 20000;
constexpr int interleavings_of_each = 10;

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  int below(int end) { return static_cast<int>(engine_() % static_cast<std::uint64_t>(end)); }
  // Mostly what might be right, and now and then what cannot be.
  int number(int end) {
    constexpr int odd[] = {-1, INT_MIN, INT_MAX, INT_MAX - 1, 1 << 16, 1 << 30};
    return below(8) == 0 ? odd[below(std::size(odd))] : below(end + 1);
  }
  template <typename List>
  auto& pick(List&& list) {
    return list[below(static_cast<int>(list.size()))];
  }

 private:
  std::mt19937_64 engine_;
};

void change_one_thing(Schedule& schedule, Random& random) {
  if (schedule.ops.empty() || random.below(8) == 0) {
    switch (random.below(5)) {
      case 0: schedule.shape.ranks = random.number(8); return;
      case 1: schedule.chunks = random.number(8); return;
      case 2: schedule.scratch_width = random.number(3); return;
      case 3: schedule.places.resize(random.below(8), random.number(3)); return;
      case 4: schedule.shape.placement = random.below(2) == 0 ? Placement::in_place : Placement::out_of_place; return;
    }
  }
  const int count = static_cast<int>(schedule.ops.size());
  Op& op = random.pick(schedule.ops);
  Chunk& chunk = random.below(2) == 0 ? op.from : op.to;
  switch (random.below(11)) {
    case 0: op.kind = op.kind == Kind::copy ? Kind::reduce : Kind::copy; return;
    case 1: chunk.rank = random.number(schedule.shape.ranks); return;
    case 2: chunk.space = static_cast<Space>(random.below(3)); return;
    case 3: chunk.first = random.number(8); return;
    case 4: chunk.count = random.number(3); return;
    case 5: op.from.count = op.to.count = random.number(3); return;
    case 6: op.after.push_back(random.number(count)); return;
    case 7:
      if (!op.after.empty()) op.after.erase(op.after.begin() + random.below(static_cast<int>(op.after.size())));
      return;
    case 8: op.level = random.number(8); return;
    case 9: std::swap(op, random.pick(schedule.ops)); return;
    case 10: schedule.ops.push_back(Op(op)); return;
  }
}

void expect_exact(const Schedule& schedule, RandomDevices& devices) {
  OverlappedRuns runs(devices, schedule, Launch::eager);
  for (int seed = 0; seed < interleavings_of_each; ++seed) ASSERT_EQ(runs(seed), "") << schedule.name;
}

TEST(Verify, JudgesWhateverItIsGivenAndAcceptsOnlyWhatIsExact) {
  Random random(1);
  int accepted = 0;
  for (int trial = 0; trial < schedules; ++trial) {
    const Shape shape{1 + random.below(6), 1 + random.below(2),
                      random.below(2) == 0 ? Placement::in_place : Placement::out_of_place};
    Schedule schedule = random.pick(algorithms()).build(shape);
    for (int changes = 1 + random.below(4); changes > 0; --changes) change_one_thing(schedule, random);
    const Verdict verdict = verify(schedule);
    ASSERT_EQ(verdict.proved, verdict.reason.empty());
    if (!verdict.proved) continue;
    ++accepted;
    // What nobody uses may be as large as it likes, but need not be allocated here.
    const auto places = std::accumulate(schedule.places.begin(), schedule.places.end(), std::int64_t{0});
    if (places * schedule.scratch_width > 1 << 10 || schedule.chunks > 1 << 10) continue;
    RandomDevices devices(schedule.shape.ranks);
    expect_exact(schedule, devices);
  }
  EXPECT_GT(accepted, schedules / 100);
}

// Each run of chunks is reduced along a random tree to a random root, and copied back along another.
TEST(Builder, MakesAnExactScheduleOfEveryPairOfTrees) {
  Random random(2);
  for (int trial = 0; trial < schedules / 100; ++trial) {
    const Shape shape{1 + random.below(7), 1, random.below(2) == 0 ? Placement::in_place : Placement::out_of_place};
    const int chunks = 1 + random.below(8);
    Builder build("random trees", shape, chunks);
    for (int first = 0; first < chunks;) {
      const int count = std::min(chunks - first, 1 + random.below(3));
      std::vector<Rank> order(shape.ranks);
      std::iota(order.begin(), order.end(), 0);
      for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(static_cast<int>(i))]);
      // Who stands later in the order gives to one of those before it.
      for (int i = shape.ranks - 1; i > 0; --i) build.reduce(build.at(order[i], first, count), order[random.below(i)]);
      for (int i = 1; i < shape.ranks; ++i) build.copy(build.at(order[random.below(i)], first, count), order[i]);
      first += count;
    }
    const Schedule schedule = std::move(build).finish();
    const Verdict verdict = verify(schedule);
    ASSERT_TRUE(verdict.proved) << verdict.reason;
    RandomDevices devices(shape.ranks);
    expect_exact(schedule, devices);
  }
}

}  // namespace
}  // namespace allreduce
