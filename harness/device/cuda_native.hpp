// SPDX-License-Identifier: Apache-2.0
// For code that calls CUDA's libraries itself, on streams of cuda.cpp; only where the build has CUDA. A failed call is
// an exception: OutOfMemory, DeviceLost when the process can use its GPUs no more, else Error.
#pragma once

#include <cuda_runtime_api.h>

#include <optional>
#include <string>

#include "harness/device/device.hpp"

namespace harness {

// Throws what `status` says, as "<doing>: <name>: <CUDA's description>"; nothing for success.
void check_cuda(cudaError_t status, const std::string& doing);

// Whether the process can use its GPUs no more after such a failure.
bool is_sticky(cudaError_t status);

// Makes the GPU the current one of this thread.
void use_gpu(int gpu);

// Both throw Error for a stream or a device of another kind.
cudaStream_t native_stream(Stream& stream);
int gpu_of(const Device& device);
std::optional<int> gpu_if_any(const Device& device);

}  // namespace harness
