// SPDX-License-Identifier: Apache-2.0
// What a kernel's source needs to be compiled by a plain C++ compiler: CUDA's keywords mean nothing there, and where a
// thread stands is a variable.
#pragma once

#include <cuda_runtime_api.h>

extern thread_local dim3 gridDim, blockDim, blockIdx, threadIdx;
