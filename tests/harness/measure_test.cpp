// SPDX-License-Identifier: Apache-2.0
#include "harness/measure.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "harness/error.hpp"

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

bool flagged(const Measurement& measured, const std::string& flag) {
  return std::find(measured.flags.begin(), measured.flags.end(), flag) != measured.flags.end();
}

TEST(Measure, AClockThatGoesBackIsFlaggedAndTheRunIsNoSample) {
  int calls = 0;
  const Trial back{[&](int) { return ++calls == 5 ? -1e-3 : 1e-3; }};
  const auto measured = measure({&back, 1}, {.iterations = 20, .warmup = 3})[0];
  EXPECT_TRUE(flagged(measured, "clock"));
  EXPECT_EQ(measured.samples, std::vector<double>(20, 1e-3));
  const Trial always{[](int) { return -1e-3; }};
  EXPECT_THROW(measure({&always, 1}, {.iterations = 20}), Error);
  const Trial never{[](int) { return std::nan(""); }};
  EXPECT_THROW(measure({&never, 1}, {.iterations = 20}), Error);
}

TEST(Measure, ASampleTooShortForTheClockIsFlagged) {
  const auto of_length = [](double seconds) {
    const Trial trial{[=](int) { return seconds; }};
    return measure({&trial, 1}, {.iterations = 20, .warmup = 0})[0];  // no warm-up: one run a sample
  };
  EXPECT_TRUE(flagged(of_length(100e-9), "clock"));
  EXPECT_TRUE(flagged(of_length(0), "clock"));
  EXPECT_FALSE(flagged(of_length(10e-6), "clock"));
}

TEST(Measure, AWideSpreadAndManyOutliersAreFlaggedApart) {
  const auto of_pattern = [](std::vector<double> pattern) {
    const Trial trial{[=, at = std::size_t{0}](int) mutable { return pattern[at++ % pattern.size()]; }};
    return measure({&trial, 1}, {.iterations = 100})[0];
  };
  const auto wide = of_pattern({1e-3, 2e-3, 3e-3, 4e-3});
  EXPECT_TRUE(flagged(wide, "spread"));
  EXPECT_FALSE(flagged(wide, "outliers"));
  const auto far = of_pattern({1e-3, 1e-3, 1e-3, 1e-3, 9e-3});
  EXPECT_TRUE(flagged(far, "outliers"));
  EXPECT_FALSE(flagged(far, "spread"));
  const auto calm = of_pattern({1e-3});
  EXPECT_FALSE(flagged(calm, "outliers") || flagged(calm, "spread") || flagged(calm, "clock"));
}

}  // namespace
}  // namespace harness
