// SPDX-License-Identifier: Apache-2.0
// What a kernel's source needs to be compiled by a plain C++ compiler: CUDA's keywords mean nothing there, and where a
// thread stands is a variable.
#pragma once

#include <cuda_runtime_api.h>

// For kernels whose threads are fibers (fibers.hpp). The clock is a thread's own: it goes on by a millisecond at each
// look, and then others run.
void __syncthreads();
int __syncthreads_or(int vote);
long long clock64();

inline unsigned long long atomicAdd(unsigned long long* to, unsigned long long value) {
  const unsigned long long before = *to;
  *to += value;
  return before;
}

extern thread_local dim3 gridDim, blockDim, blockIdx, threadIdx;
