// SPDX-License-Identifier: Apache-2.0
#include "harness/statistics.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "harness/error.hpp"

namespace harness {
namespace {

std::vector<double> one_to(int count) {
  std::vector<double> samples(static_cast<std::size_t>(count));
  std::iota(samples.rbegin(), samples.rend(), 1.0);  // backwards: nothing may rely on sorted samples
  return samples;
}

TEST(Statistics, MedianOfAnOddCountIsTheMiddleOne) { EXPECT_EQ(median(std::vector{9.0, 1.0, 5.0}), 5); }

TEST(Statistics, MedianOfAnEvenCountIsTheMeanOfTheMiddleTwo) {
  EXPECT_EQ(median(std::vector{4.0, 1.0, 3.0, 8.0}), 3.5);
}

TEST(Statistics, MeanCountsEverySample) { EXPECT_EQ(mean(std::vector{1.0, 2.0, 6.0}), 3); }

TEST(Statistics, QuantilesAreThoseOfTypeSeven) {
  // R: quantile(c(1, 2, 4, 8, 16), c(0, .1, .25, .9, 1)), whose default is type 7.
  const std::vector<double> samples{16, 8, 4, 2, 1};
  EXPECT_DOUBLE_EQ(quantile(samples, 0), 1);
  EXPECT_DOUBLE_EQ(quantile(samples, 0.1), 1.4);
  EXPECT_DOUBLE_EQ(quantile(samples, 0.25), 2);
  EXPECT_DOUBLE_EQ(quantile(samples, 0.9), 12.8);
  EXPECT_DOUBLE_EQ(quantile(samples, 1), 16);
}

TEST(Statistics, QuartilesOfFourLieBetweenSamples) {
  const Quartiles box = quartiles(one_to(4));
  EXPECT_DOUBLE_EQ(box.first, 1.75);
  EXPECT_DOUBLE_EQ(box.median, 2.5);
  EXPECT_DOUBLE_EQ(box.third, 3.25);
}

TEST(Statistics, OneSampleIsAllOfItsQuantiles) {
  EXPECT_EQ(quantile(std::vector{3.0}, 0.9), 3);
  EXPECT_EQ(median(std::vector{3.0}), 3);
}

TEST(Statistics, NoSamplesAreAnError) {
  EXPECT_THROW(median({}), Error);
  EXPECT_THROW(mean({}), Error);
  EXPECT_THROW(count_outliers({}), Error);
  EXPECT_THROW(confidence_interval_of_median({}), Error);
}

TEST(Statistics, AFractionOutsideZeroToOneIsAnError) {
  EXPECT_THROW(quantile(one_to(3), -0.1), Error);
  EXPECT_THROW(quantile(one_to(3), 1.1), Error);
  EXPECT_THROW(quantile(one_to(3), std::nan("")), Error);
  EXPECT_THROW(confidence_interval_of_median(one_to(9), 1), Error);
}

TEST(Statistics, NinetyFivePercentNeedsSixSamples) {
  EXPECT_EQ(confidence_interval_of_median(one_to(5)), std::nullopt);  // 1 - 2/32 = 0.9375
  EXPECT_EQ(confidence_interval_of_median(one_to(6)), (Interval{1, 6}));
}

TEST(Statistics, TheIntervalOfTheMedianHasTheTabulatedRanks) {
  // Ranks from tables of the binomial distribution with p = 1/2: k is the largest with P(X < k) <= 0.025.
  EXPECT_EQ(confidence_interval_of_median(one_to(8)), (Interval{1, 8}));
  EXPECT_EQ(confidence_interval_of_median(one_to(9)), (Interval{2, 8}));
  EXPECT_EQ(confidence_interval_of_median(one_to(20)), (Interval{6, 15}));
  EXPECT_EQ(confidence_interval_of_median(one_to(100)), (Interval{40, 61}));
}

TEST(Statistics, MoreConfidenceNeverNarrowsTheInterval) {
  double width = 0;
  for (const double confidence : {0.5, 0.8, 0.9, 0.95, 0.99, 0.999}) {
    const auto interval = confidence_interval_of_median(one_to(30), confidence);
    ASSERT_TRUE(interval);
    EXPECT_GE(interval->width(), width) << confidence;
    width = interval->width();
  }
}

TEST(Statistics, ManySamplesDoNotUnderflow) {
  const auto interval = confidence_interval_of_median(one_to(10000));
  ASSERT_TRUE(interval);
  // The normal approximation: 5000.5 -+ 1.96 * sqrt(10000) / 2.
  EXPECT_NEAR(interval->low, 4902.5, 2);
  EXPECT_NEAR(interval->high, 5098.5, 2);
}

TEST(Statistics, TheIntervalHoldsTheTrueMedianAsOftenAsItSays) {
  std::mt19937_64 random(1);
  std::exponential_distribution<double> skewed(1);
  int held = 0;
  constexpr int trials = 2000;
  for (int trial = 0; trial < trials; ++trial) {
    std::vector<double> samples(12);
    for (double& sample : samples) sample = skewed(random);
    held += confidence_interval_of_median(samples)->contains(std::log(2.0)) ? 1 : 0;
  }
  // 12 samples leave out the two outer ones on each side: 96.1%, with a standard deviation of 0.4% over the trials.
  EXPECT_NEAR(static_cast<double>(held) / trials, 0.961, 0.016);
}

TEST(Statistics, IntervalsThatTouchOverlapInAPoint) {
  EXPECT_TRUE(overlap({1, 2}, {2, 3}));
  EXPECT_EQ(intersect({1, 2}, {2, 3}), (Interval{2, 2}));
  EXPECT_EQ(intersect({1, 4}, {2, 3}), (Interval{2, 3}));
}

TEST(Statistics, IntervalsApartHaveNoIntersectionAndAUnionWithTheGap) {
  EXPECT_FALSE(overlap({1, 2}, {3, 4}));
  EXPECT_EQ(intersect({3, 4}, {1, 2}), std::nullopt);
  EXPECT_EQ(unite({3, 4}, {1, 2}), (Interval{1, 4}));
}

TEST(Statistics, OnlySamplesBeyondTheFencesAreOutliers) {
  std::vector<double> samples = one_to(9);  // quartiles 3 and 7: fences at -3 and 13
  EXPECT_EQ(count_outliers(samples), 0u);
  samples.push_back(40);
  samples.push_back(-30);
  EXPECT_EQ(count_outliers(samples), 2u);
  EXPECT_EQ(count_outliers(std::vector<double>(10, 2.5)), 0u);
}

}  // namespace
}  // namespace harness
