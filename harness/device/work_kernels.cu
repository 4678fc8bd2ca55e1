// SPDX-License-Identifier: Apache-2.0
#include "harness/device/work_kernels.hpp"

#include "harness/device/work_kernels.cuh"

namespace harness::kernels {

namespace {

constexpr unsigned threads = 256;
constexpr std::size_t most_blocks = 4096;  // more than any GPU runs at once

unsigned blocks_for(std::size_t count) {
  const std::size_t wanted = (count + threads - 1) / threads;
  return static_cast<unsigned>(wanted < most_blocks ? wanted : most_blocks);
}

}  // namespace

cudaError_t launch_narrow(const float* from, void* to, std::size_t count, cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  narrow<<<blocks_for(count), threads, 0, stream>>>(from, static_cast<__nv_bfloat16*>(to), count);
  return cudaGetLastError();
}

cudaError_t launch_widen(const void* from, float* to, std::size_t count, cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  widen<<<blocks_for(count), threads, 0, stream>>>(static_cast<const __nv_bfloat16*>(from), to, count);
  return cudaGetLastError();
}

cudaError_t launch_look_at_clock(BrakeTimes* times, cudaStream_t stream) {
  begin_work<<<1, 1, 0, stream>>>(times);
  return cudaGetLastError();
}

cudaError_t launch_waste(BrakeTimes* times, double extra, cudaStream_t stream) {
  waste<<<1, 1, 0, stream>>>(times, extra);
  return cudaGetLastError();
}

}  // namespace harness::kernels
