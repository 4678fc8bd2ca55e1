// SPDX-License-Identifier: Apache-2.0
// How this floor's kernels are launched. Everything that nvcc compiles stands behind such a header.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "harness/device/reduction.hpp"

namespace harness::kernels {

// into[i] = into[i] (op) from[i] for `count` elements, on a stream of the current device; `from` may be a peer's memory
// that this device can read. `most_blocks` is how many blocks of `threads_per_block` fill the device.
cudaError_t launch_reduce(const void* from, void* into, std::size_t count, const Reduction& reduction, int most_blocks,
                          cudaStream_t stream);

inline constexpr int threads_per_block = 512;

}  // namespace harness::kernels
