// SPDX-License-Identifier: Apache-2.0
// The vectors of values.hpp on a GPU: filled by its kernels, and their whole numbers compared there, so that no vector
// has to pass through the host.
#pragma once

#include <cstddef>

#include "allreduce/values.hpp"
#include "harness/device/device.hpp"

namespace allreduce {

// Whether a device can: a GPU, in a build with CUDA.
bool has_device_values(const harness::Device& device);

// Both are for memory of the stream's device, and throw Error for another kind of device.
void fill_on_device(harness::Stream& stream, const Pattern& pattern, int rank, Numbers numbers, std::byte* into,
                    std::size_t count);
// How many elements of `part`, of a vector of `count`, are not those of the rank's answer. Waits for it.
std::size_t count_wrong_on_device(harness::Stream& stream, const Pattern& pattern, int rank, const std::byte* got,
                                  std::size_t count, Part part);

}  // namespace allreduce
