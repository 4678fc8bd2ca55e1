// SPDX-License-Identifier: Apache-2.0
// bench_train's command line: its table of options, and what the measured and the forecast step read from it alike.
#pragma once

#include <string>
#include <vector>

#include "harness/options.hpp"

namespace bench {

std::vector<harness::Option> training_options();

// "weak" or "strong", for so many points of --device.
std::string scaling_of(const harness::Options& options, std::size_t device_points);

// The images of a step on all devices together.
std::size_t global_batch_of(const harness::Options& options, const std::string& scaling, int ranks);

}  // namespace bench
