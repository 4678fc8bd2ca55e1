// SPDX-License-Identifier: Apache-2.0
// For code that calls CUDA's libraries itself, on streams of cuda.cpp; only where the build has CUDA. A failed call is
// an exception: OutOfMemory, DeviceLost when the process can use its GPUs no more, else Error.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "harness/device/device.hpp"

namespace harness {

// Throws what `status` says, as "<doing>: <name>: <CUDA's description>"; nothing for success.
void check_cuda(cudaError_t status, const std::string& doing);

// Whether the process can use its GPUs no more after such a failure.
bool is_sticky(cudaError_t status);

// Throws Error for another library's call that failed, "<doing>: <said>"; where CUDA says that the process can use its
// GPUs no more, whatever the library made of it, DeviceLost with CUDA's words too.
[[noreturn]] void fail_on_gpu(std::string_view doing, const std::string& said);

// Host memory that the host and the GPUs use at the same time.
std::shared_ptr<void> allocate_pinned(std::size_t bytes);

// What Device::allocate gives, of memory that another library takes and gives back while the device's GPU is the
// current one. `take` returns what CUDA says; the device is a GPU.
struct MemorySource {
  std::function<cudaError_t(void**)> take;
  void (*give_back)(void*);
};
Buffer allocate_by(Device& device, std::size_t bytes, const MemorySource& source);

// Makes the GPU the current one of this thread.
void use_gpu(int gpu);

// Both throw Error for a stream or a device of another kind.
cudaStream_t native_stream(Stream& stream);
int gpu_of(const Device& device);
std::optional<int> gpu_if_any(const Device& device);

}  // namespace harness
