// SPDX-License-Identifier: Apache-2.0
// The bodies of the kernels of cuda_work.cpp; as in kernels.cuh, a plain C++ compiler can be taught all that they use.
#pragma once

#include <cuda_bf16.h>

#ifdef __CUDACC__
#include <cuda/std/chrono>
#else
#include <chrono>
#endif

#include <cstddef>
#include <cstdint>

#include "harness/device/work_kernels.hpp"

namespace harness::kernels {

__global__ void narrow(const float* from, __nv_bfloat16* to, std::size_t count) {
  const std::size_t stride = std::size_t(gridDim.x) * blockDim.x;
  for (std::size_t i = std::size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += stride) {
    to[i] = __float2bfloat16_rn(from[i]);
  }
}

__global__ void widen(const __nv_bfloat16* from, float* to, std::size_t count) {
  const std::size_t stride = std::size_t(gridDim.x) * blockDim.x;
  for (std::size_t i = std::size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += stride) {
    to[i] = __bfloat162float(from[i]);
  }
}

// The clock that all processors of a GPU share, which the counters of their cycles are not.
#ifdef __CUDACC__
using Nanoseconds = cuda::std::chrono::nanoseconds;
using Clock = cuda::std::chrono::system_clock;
#else
using Nanoseconds = std::chrono::nanoseconds;
using Clock = std::chrono::steady_clock;
#endif
__device__ inline std::int64_t look_at_clock() { return Nanoseconds(Clock::now().time_since_epoch()).count(); }

// One thread each.
__global__ void begin_work(BrakeTimes* times) { times->began = look_at_clock(); }

__global__ void waste(BrakeTimes* times, double extra) {
  const std::int64_t begin = look_at_clock();
  const std::int64_t until = begin + static_cast<std::int64_t>(extra * static_cast<double>(begin - times->began));
  std::int64_t now = begin;
  while (now < until) now = look_at_clock();
  times->wasted += now - begin;
}

}  // namespace harness::kernels
