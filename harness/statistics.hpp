// SPDX-License-Identifier: Apache-2.0
// What a handful of timings says. Timings are skewed and have stragglers, so everything here goes by rank: medians and
// quartiles instead of means, and an interval that assumes no distribution. Every function takes samples in any order;
// without samples it throws Error.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

namespace harness {

struct Interval {
  double low = 0, high = 0;

  double width() const { return high - low; }
  bool contains(double value) const { return low <= value && value <= high; }
  friend bool operator==(const Interval&, const Interval&) = default;
};

struct Quartiles {
  double first = 0, median = 0, third = 0;
};

double mean(std::span<const double> samples);
double median(std::span<const double> samples);

// `fraction` from 0 to 1, by linear interpolation between order statistics: type 7 of Hyndman and Fan, "Sample
// quantiles in statistical packages", The American Statistician 50(4), 1996.
double quantile(std::span<const double> samples, double fraction);
Quartiles quartiles(std::span<const double> samples);

// Between which two samples the true median lies with at least this confidence (of 0 to 1, both excluded): the k-th
// smallest and the k-th largest, with k the largest that P(Binomial(n, 1/2) < k) <= (1 - confidence) / 2 permits.
// Conover, Practical Nonparametric Statistics, 3rd edition, 1999, section 3.2. Nothing when there are too few samples:
// 95% needs six.
std::optional<Interval> confidence_interval_of_median(std::span<const double> samples, double confidence = 0.95);

Interval unite(Interval a, Interval b);  // the smallest that holds both
std::optional<Interval> intersect(Interval a, Interval b);
bool overlap(Interval a, Interval b);  // touching counts

// How many lie more than 1.5 interquartile ranges outside the quartiles: Tukey, Exploratory Data Analysis, 1977.
std::size_t count_outliers(std::span<const double> samples);

}  // namespace harness
