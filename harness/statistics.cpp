// SPDX-License-Identifier: Apache-2.0
#include "harness/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "harness/error.hpp"

namespace harness {
namespace {

std::vector<double> sorted(std::span<const double> samples) {
  if (samples.empty()) throw Error("statistics of 0 samples");
  std::vector<double> values(samples.begin(), samples.end());
  std::ranges::sort(values);
  return values;
}

double quantile_of_sorted(const std::vector<double>& values, double fraction) {
  const double position = fraction * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return std::lerp(values[below], values[above], position - std::floor(position));
}

Quartiles quartiles_of_sorted(const std::vector<double>& values) {
  return {quantile_of_sorted(values, 0.25), quantile_of_sorted(values, 0.5), quantile_of_sorted(values, 0.75)};
}

}  // namespace

double mean(std::span<const double> samples) {
  if (samples.empty()) throw Error("statistics of 0 samples");
  return std::accumulate(samples.begin(), samples.end(), 0.0) / static_cast<double>(samples.size());
}

double median(std::span<const double> samples) { return quantile(samples, 0.5); }

double quantile(std::span<const double> samples, double fraction) {
  if (!(fraction >= 0 && fraction <= 1)) throw Error("a quantile at " + std::to_string(fraction) + ", not 0 to 1");
  return quantile_of_sorted(sorted(samples), fraction);
}

Quartiles quartiles(std::span<const double> samples) { return quartiles_of_sorted(sorted(samples)); }

std::optional<Interval> confidence_interval_of_median(std::span<const double> samples, double confidence) {
  if (!(confidence > 0 && confidence < 1)) {
    throw Error("a confidence of " + std::to_string(confidence) + ", not between 0 and 1");
  }
  const std::vector<double> values = sorted(samples);
  const std::size_t count = values.size();
  const double tail_allowed = (1 - confidence) / 2;
  // P(Binomial(n, 1/2) = i) by its logarithm, from term to term: 2^-n itself underflows beyond a thousand samples.
  double log_term = -static_cast<double>(count) * std::log(2.0);
  double tail = 0;
  std::size_t rank = 0;  // how many samples may be left out on each side
  while (2 * rank < count) {
    tail += std::exp(log_term);
    if (tail > tail_allowed) break;
    log_term += std::log(static_cast<double>(count - rank) / static_cast<double>(rank + 1));
    ++rank;
  }
  if (rank == 0) return std::nullopt;
  return Interval{values[rank - 1], values[count - rank]};
}

Interval unite(Interval a, Interval b) { return {std::min(a.low, b.low), std::max(a.high, b.high)}; }

std::optional<Interval> intersect(Interval a, Interval b) {
  if (!overlap(a, b)) return std::nullopt;
  return Interval{std::max(a.low, b.low), std::min(a.high, b.high)};
}

bool overlap(Interval a, Interval b) { return a.low <= b.high && b.low <= a.high; }

std::size_t count_outliers(std::span<const double> samples) {
  const Quartiles box = quartiles_of_sorted(sorted(samples));
  const double reach = 1.5 * (box.third - box.first);
  const Interval fences{box.first - reach, box.third + reach};
  return static_cast<std::size_t>(
      std::ranges::count_if(samples, [&](double sample) { return !fences.contains(sample); }));
}

}  // namespace harness
