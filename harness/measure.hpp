// SPDX-License-Identifier: Apache-2.0
// How contenders are timed against each other: in rounds. A round visits every unfinished trial once, in an order that
// is shuffled anew from the seed, so that drift of the machine falls on all of them alike. A visit takes a few samples;
// a sample is the mean over enough runs for the clock. A trial is settled when the 95% interval of the median over the
// medians of its visits is narrow, or its time is spent.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/report.hpp"
#include "harness/statistics.hpp"

namespace harness {

struct Trial {
  std::function<double(int runs)> time;     // seconds of one run, as the mean over that many
  std::function<void()> prepare = nullptr;  // before each visit, outside of the clock
};

struct MeasureSettings {
  double budget_seconds = 0.5;         // a trial's share, warm-up and preparation included
  std::optional<int> iterations = {};  // take exactly so many samples instead
  std::optional<int> warmup = {};      // runs before the first sample; by default 3
  std::uint64_t seed = 1;
  // Makes one duration of those that the processes of a job measured, so that all decide alike: their trials' times are
  // the same, but what a visit took is each one's own.
  std::function<double(double)> agree = nullptr;
};

struct Measurement {
  std::vector<double> samples;  // seconds of one run
  std::vector<double> visit_medians;
  int runs_per_sample = 1;
  std::optional<Stop> stop = {};          // nothing while it goes on
  double seconds = 0;                     // median of the samples
  std::optional<Interval> interval = {};  // of the median, over visits; nothing with fewer than eight
  std::vector<std::string> flags = {};    // once it is settled
};

// Measures all trials. What doubts their samples leave is told once a trial is settled: "clock" of a run that took no
// time or less, or samples too short for the clock; "outliers" and "spread" of the samples; "load" and "throttled" of
// what went on around them. A run that took less than no time is no sample; Error when a visit has no other.
// `after_visit(trial, measurement)` is called after each visit. Gives one measurement a trial.
std::vector<Measurement> measure(std::span<const Trial> trials, const MeasureSettings& settings,
                                 const std::function<void(std::size_t, const Measurement&)>& after_visit = {});

}  // namespace harness
