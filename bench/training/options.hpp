// SPDX-License-Identifier: Apache-2.0
// bench_train's command line: its table of options, and what they come to for a point of the sweep.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/training/course.hpp"
#include "bench/training/strategy.hpp"
#include "harness/options.hpp"

namespace bench {

std::vector<harness::Option> training_options();

// "weak" or "strong", for so many points of --device.
std::string scaling_of(const harness::Options& options, std::size_t device_points);

// The images of a step on all devices together.
std::size_t global_batch_of(const harness::Options& options, const std::string& scaling, int ranks);

// `point` holds strategy, algorithm and overlap.
StrategySettings strategy_settings(const harness::Options& options, const nlohmann::json& point,
                                   const std::string& scaling, int ranks);

// --accumulate and --slow, as far as they concern so many ranks.
Conditions conditions_for(const harness::Options& options, int ranks);

// Without the data sets.
CourseSettings course_settings(const harness::Options& options, std::size_t global_batch);

// The command that repeats one point, described in full, alone.
std::vector<std::string> command_for(const harness::Options& options, const nlohmann::json& point);

}  // namespace bench
