// SPDX-License-Identifier: Apache-2.0
// Test vectors whose all-reduce has one exact answer in any order of additions, so that a check can ask for bitwise
// equality at every element. Values come from (rank, index, seed) alone: any rank knows the answer. Every partial
// result is an integer of at most p bits (p = 8 bf16, 11 f16, 24 f32, 53 f64, 30 i32), or for `prod` a power of two.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "harness/device/dtype.hpp"
#include "harness/report.hpp"

namespace allreduce {

struct Pattern {
  harness::Dtype dtype = harness::Dtype::f32;
  harness::Op op = harness::Op::sum;
  int ranks = 1;
  std::uint64_t seed = 1;
};

// Element `index` of a rank's contribution, and of the result. Whole numbers.
std::int64_t contribution(const Pattern& pattern, int rank, std::size_t index);
std::int64_t answer(const Pattern& pattern, std::size_t index);

// `count` elements of a rank's contribution into host memory.
void fill(const Pattern& pattern, int rank, std::byte* into, std::size_t count);

// Compares `count` elements in host memory with the answer; nothing when all are equal, else how many are not and the
// first, as of `rank`.
std::optional<harness::Wrong> compare(const Pattern& pattern, int rank, const std::byte* got, std::size_t count);

}  // namespace allreduce
