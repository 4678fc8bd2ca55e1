// SPDX-License-Identifier: Apache-2.0
#include "allreduce/device_values.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>

#include "allreduce/device_values_kernels.hpp"
#include "harness/device/cuda_native.hpp"

namespace allreduce {

namespace {

constexpr std::size_t threads = 256, most_blocks = 1024;

void launch(harness::Stream& stream, const void* kernel, void** arguments, std::size_t count) {
  harness::use_gpu(harness::gpu_of(stream.device()));
  const auto blocks = static_cast<unsigned>(std::min((count + threads - 1) / threads, most_blocks));
  harness::check_cuda(
      cudaLaunchKernel(kernel, dim3(blocks), dim3(threads), arguments, 0, harness::native_stream(stream)),
      stream.device().name() + ": launching a kernel over " + std::to_string(count) + " elements");
}

}  // namespace

bool has_device_values(const harness::Device& device) { return harness::gpu_if_any(device).has_value(); }

void fill_on_device(harness::Stream& stream, const Pattern& pattern, int rank, Numbers numbers, std::byte* into,
                    std::size_t count) {
  if (count == 0) return;
  Pattern values = pattern;
  bool reals = numbers == Numbers::real;
  void* arguments[] = {&values, &rank, &reals, &into, &count};
  launch(stream, kernels::fill_kernel(pattern.dtype), arguments, count);
}

std::size_t count_wrong_on_device(harness::Stream& stream, const Pattern& pattern, int rank, const std::byte* got,
                                  std::size_t count, Part part) {
  if (part.count == 0) return 0;
  unsigned long long wrong = 0;
  const harness::Buffer counter = stream.device().allocate(sizeof wrong);
  stream.copy(&wrong, counter.data(), sizeof wrong);
  Pattern values = pattern;
  std::byte* into = counter.data();
  void* arguments[] = {&values, &rank, &got, &count, &part.first, &part.count, &into};
  launch(stream, kernels::count_wrong_kernel(pattern.dtype), arguments, part.count);
  stream.copy(counter.data(), &wrong, sizeof wrong);
  stream.sync();
  return wrong;
}

}  // namespace allreduce
