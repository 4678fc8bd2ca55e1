// SPDX-License-Identifier: Apache-2.0
// bench_train's command line: its table of options, and what the measured and the forecast step read from it alike.
#pragma once

#include <string>
#include <vector>

#include "bench/training/strategy.hpp"
#include "harness/options.hpp"

namespace bench {

std::vector<harness::Option> training_options();

// "weak" or "strong", for so many points of --device.
std::string scaling_of(const harness::Options& options, std::size_t device_points);

// The images of a step on all devices together.
std::size_t global_batch_of(const harness::Options& options, const std::string& scaling, int ranks);

// The algorithms that were asked for and that such a strategy has; none for one that needs none.
std::vector<std::string> algorithms_of(const harness::Options& options, const StrategyRow& strategy);

// Throws harness::UsageError for a strategy that has none of the algorithms, and for one that no strategy takes.
void require_algorithms(const harness::Options& options);

}  // namespace bench
