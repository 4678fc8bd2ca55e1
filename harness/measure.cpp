// SPDX-License-Identifier: Apache-2.0
#include "harness/measure.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "harness/clock.hpp"
#include "harness/error.hpp"
#include "harness/surroundings.hpp"

namespace harness {

namespace {

constexpr int default_warmup = 3;
constexpr int looks_at_a_length = 3;
constexpr double shortest_sample_seconds = 100e-6;  // a few hundred times the clock's resolution and cost
constexpr double longest_visit_seconds = 20e-3;
constexpr int most_runs_per_sample = 1000;
constexpr int most_samples_per_visit = 20;
constexpr std::size_t least_visits = 8;
constexpr double narrow = 0.02;        // width of the interval over the median
constexpr double many_outliers = 0.1;  // of the samples
constexpr double wide_spread = 0.5;    // from the first quartile to the third, over the median
constexpr double too_short = 1e-6;     // seconds: tens of times what reading the clock costs

struct State {
  const Trial* trial;
  Measurement measured = {};
  int samples_per_visit = 1;
  double spent = 0;
  bool clock_failed = false;  // a run took no time or less
};

void calibrate(State& state, const MeasureSettings& settings) {
  if (state.trial->prepare) state.trial->prepare();
  if (settings.warmup == 0) return;  // nothing is known of its length: one run a sample, one sample a visit
  // The shortest of a few, since one that was interrupted looks like a long one.
  const auto shortest = [&](int looks, int runs) {
    double seconds = state.trial->time(runs);
    for (int look = 1; look < looks; ++look) seconds = std::min(seconds, state.trial->time(runs));
    return std::max(seconds, 1e-9);
  };
  int& runs = state.measured.runs_per_sample;
  double seconds = shortest(settings.warmup.value_or(default_warmup), runs);
  // A single run may be slower than one of many: caches are cold, and others have been asleep.
  while (seconds * runs < shortest_sample_seconds && runs < most_runs_per_sample) {
    const double wanted = std::ceil(shortest_sample_seconds / seconds);
    runs = static_cast<int>(std::clamp(wanted, 2.0 * runs, double{most_runs_per_sample}));
    seconds = shortest(looks_at_a_length, runs);
  }
  const double sample = seconds * runs;
  const double fitting = std::floor(std::min(longest_visit_seconds, settings.budget_seconds / least_visits) / sample);
  state.samples_per_visit = static_cast<int>(std::clamp(fitting, 1.0, double{most_samples_per_visit}));
}

void visit(State& state, const MeasureSettings& settings) {
  Measurement& measured = state.measured;
  std::size_t samples = state.samples_per_visit;
  if (settings.iterations) samples = std::min(samples, *settings.iterations - measured.samples.size());
  if (state.trial->prepare) state.trial->prepare();
  const std::size_t before = measured.samples.size();
  for (std::size_t i = 0; i < samples; ++i) {
    const double seconds = state.trial->time(measured.runs_per_sample);
    state.clock_failed = state.clock_failed || !(seconds > 0);
    if (seconds >= 0) measured.samples.push_back(seconds);
  }
  if (measured.samples.size() == before)
    throw Error("the clock went back: each of a visit's runs took less than no time");
  measured.visit_medians.push_back(median(std::span(measured.samples).subspan(before)));
  measured.seconds = median(measured.samples);
  if (measured.visit_medians.size() >= least_visits) {
    measured.interval = confidence_interval_of_median(measured.visit_medians);
  }
}

std::optional<Stop> verdict(const State& state, const MeasureSettings& settings) {
  const Measurement& measured = state.measured;
  if (settings.iterations) {
    if (measured.samples.size() >= static_cast<std::size_t>(*settings.iterations)) return Stop::count;
    return std::nullopt;
  }
  if (measured.interval && measured.interval->width() <= narrow * measured.seconds) return Stop::interval;
  if (state.spent >= settings.budget_seconds) return Stop::budget;
  return std::nullopt;
}

std::vector<std::string> doubts(const State& state, const Surroundings& before) {
  const Measurement& measured = state.measured;
  std::vector<std::string> flags = flags_between(before, look_around());
  if (state.clock_failed || measured.seconds * measured.runs_per_sample < too_short) flags.emplace_back("clock");
  const std::size_t count = measured.samples.size();
  const auto outliers = static_cast<double>(count_outliers(measured.samples));
  if (outliers > many_outliers * static_cast<double>(count)) flags.emplace_back("outliers");
  const Quartiles quarters = quartiles(measured.samples);
  if (quarters.third - quarters.first > wide_spread * quarters.median) flags.emplace_back("spread");
  return flags;
}

}  // namespace

std::vector<Measurement> measure(std::span<const Trial> trials, const MeasureSettings& settings,
                                 const std::function<void(std::size_t, const Measurement&)>& after_visit) {
  const Surroundings before = look_around();
  std::vector<State> states;
  for (const Trial& trial : trials) states.push_back({&trial});
  const auto timed = [&](State& state, const auto& work) {
    const double begin = steady_seconds();
    work();
    const double spent = steady_seconds() - begin;
    state.spent += settings.agree ? settings.agree(spent) : spent;
  };
  for (State& state : states) timed(state, [&] { calibrate(state, settings); });

  std::mt19937_64 random(settings.seed);
  std::vector<std::size_t> open(states.size());
  std::iota(open.begin(), open.end(), 0);
  while (!open.empty()) {
    for (std::size_t i = open.size(); i > 1; --i) std::swap(open[i - 1], open[random() % i]);
    for (const std::size_t index : open) {
      State& state = states[index];
      timed(state, [&] { visit(state, settings); });
      state.measured.stop = verdict(state, settings);
      if (state.measured.stop) state.measured.flags = doubts(state, before);
      if (after_visit) after_visit(index, state.measured);
    }
    std::erase_if(open, [&](std::size_t index) { return states[index].measured.stop.has_value(); });
    std::sort(open.begin(), open.end());
  }
  std::vector<Measurement> measurements;
  for (State& state : states) measurements.push_back(std::move(state.measured));
  return measurements;
}

}  // namespace harness
