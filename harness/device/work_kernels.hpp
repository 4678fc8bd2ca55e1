// SPDX-License-Identifier: Apache-2.0
// How the kernels of cuda_work.cpp are launched, on a stream of the current device.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace harness::kernels {

// to[i] = from[i]. The bfloat16 numbers are given as their bits.
cudaError_t launch_narrow(const float* from, void* to, std::size_t count, cudaStream_t stream);
cudaError_t launch_widen(const void* from, float* to, std::size_t count, cudaStream_t stream);

// Of a brake, in the memory of its GPU: when the work began, and what was wasted so far.
struct BrakeTimes {
  std::int64_t began, wasted;  // nanoseconds
};
cudaError_t launch_look_at_clock(BrakeTimes* times, cudaStream_t stream);
// Keeps the stream busy for `extra` times what went by since the clock was looked at.
cudaError_t launch_waste(BrakeTimes* times, double extra, cudaStream_t stream);

}  // namespace harness::kernels
