// SPDX-License-Identifier: Apache-2.0
// The reduce of a CPU device, over host memory, as plain loops that the compiler vectorises.
#pragma once

#include <cstddef>

#include "harness/device/dtype.hpp"

namespace harness {

// into[i] = into[i] (op) from[i], then the division, for `count` elements of reduction.dtype. 16-bit types compute in
// float and round once. `min` and `max` of a NaN and a number are the NaN, whichever side it stands on.
void reduce_on_host(const void* from, void* into, std::size_t count, const Reduction& reduction);

}  // namespace harness
