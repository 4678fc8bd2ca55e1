// SPDX-License-Identifier: Apache-2.0
#include "harness/measure.hpp"

#include <gtest/gtest.h>

#include <set>

namespace harness {
namespace {

TEST(Measure, TakesExactlyTheIterationsAskedFor) {
  for (const int iterations : {1, 7, 50}) {
    const Trial trial{[](int) { return 1e-3; }};
    const auto measured = measure({&trial, 1}, {.iterations = iterations});
    EXPECT_EQ(measured[0].samples.size(), std::size_t(iterations));
    EXPECT_EQ(measured[0].stop, Stop::count);
  }
}

TEST(Measure, StopsAtANarrowIntervalAfterEightVisits) {
  const Trial trial{[](int) { return 1e-3; }};
  const auto measured = measure({&trial, 1}, {.budget_seconds = 10});
  EXPECT_EQ(measured[0].stop, Stop::interval);
  EXPECT_EQ(measured[0].visit_medians.size(), 8U);
  EXPECT_EQ(measured[0].seconds, 1e-3);
}

TEST(Measure, ANoisyTrialEndsWithItsBudgetAndSaysSo) {
  int calls = 0;
  const Trial trial{[&](int) { return ++calls % 2 ? 1e-3 : 2e-3; }};
  const auto measured = measure({&trial, 1}, {.budget_seconds = 0.001});
  EXPECT_NE(measured[0].stop, Stop::count);
  const Trial never_settles{[n = 1e-3](int) mutable { return n *= 1.5; }};
  EXPECT_EQ(measure({&never_settles, 1}, {.budget_seconds = 0.001})[0].stop, Stop::budget);
}

TEST(Measure, ShortRunsAreTimedInBatches) {
  const Trial fast{[](int) { return 1e-6; }};
  const Trial slow{[](int) { return 1e-2; }};
  EXPECT_NEAR(measure({&fast, 1}, {.budget_seconds = 0.01})[0].runs_per_sample, 100, 1);
  EXPECT_EQ(measure({&slow, 1}, {.budget_seconds = 0.01})[0].runs_per_sample, 1);
}

TEST(Measure, FewVisitsHaveNoInterval) {
  const Trial trial{[](int) { return 1e-1; }};
  EXPECT_FALSE(measure({&trial, 1}, {.iterations = 3})[0].interval);
}

TEST(Measure, RoundsVisitEveryTrialInAnOrderThatTheSeedRepeats) {
  const auto order = [](std::uint64_t seed) {
    std::vector<int> visits;
    std::vector<Trial> trials;
    for (int i = 0; i < 4; ++i) trials.push_back({[](int) { return 1e-2; }});
    measure(trials, {.iterations = 5, .seed = seed},
            [&](std::size_t trial, const Measurement&) { visits.push_back(static_cast<int>(trial)); });
    return visits;
  };
  const auto visits = order(1);
  EXPECT_EQ(visits, order(1));
  EXPECT_NE(visits, order(2));
  EXPECT_EQ(std::set<int>(visits.begin(), visits.begin() + 4).size(), 4U);
}

}  // namespace
}  // namespace harness
