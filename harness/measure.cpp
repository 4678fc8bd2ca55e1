// SPDX-License-Identifier: Apache-2.0
#include "harness/measure.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "harness/clock.hpp"

namespace harness {

namespace {

constexpr int default_warmup = 3;
constexpr double shortest_sample_seconds = 100e-6;  // a few hundred times the clock's resolution and cost
constexpr double longest_visit_seconds = 20e-3;
constexpr int most_runs_per_sample = 1000;
constexpr int most_samples_per_visit = 20;
constexpr std::size_t least_visits = 8;
constexpr double narrow = 0.02;  // width of the interval over the median

struct State {
  const Trial* trial;
  Measurement measured = {};
  int samples_per_visit = 1;
  double spent = 0;
};

void calibrate(State& state, const MeasureSettings& settings) {
  if (state.trial->prepare) state.trial->prepare();
  double seconds = 0;
  for (int run = 0; run < settings.warmup.value_or(default_warmup); ++run) seconds = state.trial->time(1);
  if (settings.warmup == 0) return;  // nothing is known of its length: one run a sample, one sample a visit
  const double wanted = std::ceil(shortest_sample_seconds / std::max(seconds, 1e-9));
  state.measured.runs_per_sample = static_cast<int>(std::clamp(wanted, 1.0, double{most_runs_per_sample}));
  const double sample = std::max(seconds, 1e-9) * state.measured.runs_per_sample;
  const double fitting = std::floor(std::min(longest_visit_seconds, settings.budget_seconds / least_visits) / sample);
  state.samples_per_visit = static_cast<int>(std::clamp(fitting, 1.0, double{most_samples_per_visit}));
}

void visit(State& state, const MeasureSettings& settings) {
  Measurement& measured = state.measured;
  std::size_t samples = state.samples_per_visit;
  if (settings.iterations) samples = std::min(samples, *settings.iterations - measured.samples.size());
  if (state.trial->prepare) state.trial->prepare();
  for (std::size_t i = 0; i < samples; ++i) measured.samples.push_back(state.trial->time(measured.runs_per_sample));
  measured.visit_medians.push_back(median(std::span(measured.samples).last(samples)));
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

}  // namespace

std::vector<Measurement> measure(std::span<const Trial> trials, const MeasureSettings& settings,
                                 const std::function<void(std::size_t, const Measurement&)>& after_visit) {
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
