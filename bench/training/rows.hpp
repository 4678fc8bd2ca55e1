// SPDX-License-Identifier: Apache-2.0
// What a row of the report says of a measured step.
#pragma once

#include <span>

#include "bench/training/timing.hpp"
#include "harness/report.hpp"

namespace bench {

// The step told apart: its times, phases and all-reduces, what moves between devices and who waits.
void record_times(harness::Result& result, const StepTimes& times, const Strategy& strategy, const Replicas& replicas);

// Speed-up against the first of the rows that was measured on one device with the same model and arithmetic, if any.
void compare_with_one_device(harness::Result& result, std::span<const harness::Result> rows);

}  // namespace bench
