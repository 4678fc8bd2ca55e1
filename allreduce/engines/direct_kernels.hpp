// SPDX-License-Identifier: Apache-2.0
// How the kernels of engines/direct.cpp are called; plain data of C++17, since nvcc reads it too.
#pragma once

#include <cstddef>
#include <cstdint>

#include "harness/device/reduction.hpp"

namespace allreduce {

inline constexpr int most_direct_ranks = 8;

// One rank's launch. All ranks launch the same kernel with as many blocks and threads, at least `most_direct_ranks` of
// these.
struct DirectCall {
  const void* input;
  void* output;       // may be the input
  std::size_t count;  // elements
  bool aligned;       // both to 16 bytes
  int rank, ranks;
  int divisor;                                // above one for an average
  void* scratch[most_direct_ranks];           // of each rank: twice its vector, each in whole 16 bytes
  std::uint32_t* arrived[most_direct_ranks];  // of each rank: [block][peer], the last meeting that the peer came to
  std::uint32_t* launches;                    // of this rank: [block], how many have ended
  std::uint32_t* missed;                      // of this rank: 1 + the rank that it waited for in vain, else 0
  long long limit;                            // of a wait, in cycles
};

enum class DirectShot { one, two };

namespace kernels {

// For cudaLaunchKernel, with a DirectCall as its only argument; avg adds as sum does.
const void* direct_kernel(DirectShot shot, const harness::Reduction& reduction);

}  // namespace kernels

}  // namespace allreduce
