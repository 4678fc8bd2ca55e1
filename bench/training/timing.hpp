// SPDX-License-Identifier: Apache-2.0
// Times the steps of strategies, whether they share their replicas or have other devices: the whole step, its compute
// with the communication left out, and the communication alone, all in interleaved rounds and from the same state.
// Where ranks are processes, a step is as long as the slowest rank's.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "bench/training/strategy.hpp"
#include "harness/measure.hpp"

namespace bench {

struct Contender {
  Strategy* strategy = nullptr;
  Replicas* replicas = nullptr;
  std::string kind;  // contenders of one kind with the same replicas compute the same: that is timed once for all
};

// Medians, over the steps.
struct StepTimes {
  harness::Measurement step;
  double compute = 0;        // one device has nothing to communicate: this is its step
  double communication = 0;  // and this is 0
  std::vector<Phase> phases = {};
  std::vector<double> waiting = {};  // per rank
  std::vector<double> idle = {};     // per rank: the median share, of the median step
  double planted = 0;                // the delay that makes a rank slow
};

// Median seconds of whole steps of strategies that share their replicas, in interleaved rounds from the same state.
std::vector<double> compare_steps(std::span<const std::unique_ptr<Strategy>> strategies, Replicas& replicas,
                                  const harness::MeasureSettings& settings);

// The replicas hold the initial state and the strategies a loaded batch; both are so again at the end. `shown` is told
// which part of it is done.
std::vector<StepTimes> time_steps(std::span<const Contender> contenders, const harness::MeasureSettings& settings,
                                  const std::function<void(double)>& shown);

}  // namespace bench
