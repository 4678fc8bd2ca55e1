// SPDX-License-Identifier: Apache-2.0
// The bodies of the kernels of device_values.cpp. As in harness/device/kernels.cuh, a plain C++ compiler can be taught
// all that they use.
#pragma once

#include <cstddef>

#include "allreduce/element.hpp"
#include "harness/device/kernels.cuh"

namespace allreduce::kernels {

template <typename Stored, typename Number>
__device__ inline Stored stored(Number number) {
  using Arithmetic = harness::kernels::Arithmetic<Stored>;
  return Arithmetic::store(static_cast<typename Arithmetic::Value>(number));
}

// Whole numbers, or reals, of a rank's contribution.
template <typename Stored>
__global__ void fill(Pattern pattern, int rank, bool reals, Stored* into, std::size_t count) {
  const std::size_t stride = std::size_t(gridDim.x) * blockDim.x;
  for (std::size_t i = std::size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += stride) {
    into[i] = reals ? stored<Stored>(real(pattern, rank, i)) : stored<Stored>(contribution(pattern, rank, i));
  }
}

// Adds to *wrong how many of `part_count` elements from `first` on, of a vector of `count`, differ from the rank's
// answer.
template <typename Stored>
__global__ void count_wrong(Pattern pattern, int rank, const Stored* got, std::size_t count, std::size_t first,
                            std::size_t part_count, unsigned long long* wrong) {
  using Arithmetic = harness::kernels::Arithmetic<Stored>;
  const std::size_t stride = std::size_t(gridDim.x) * blockDim.x;
  unsigned long long mine = 0;
  for (std::size_t i = std::size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < part_count; i += stride) {
    const auto expected = Arithmetic::load(stored<Stored>(answer(pattern, rank, first + i, count)));
    if (!(Arithmetic::load(got[first + i]) == expected)) ++mine;  // a NaN is wrong too
  }
  if (mine > 0) atomicAdd(wrong, mine);
}

}  // namespace allreduce::kernels
