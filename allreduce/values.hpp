// SPDX-License-Identifier: Apache-2.0
// Test vectors whose all-reduce, or other collective, is known. Whole numbers have one exact answer in any order of
// additions, so that a check can ask for equality at every element: every partial result is an integer of at most p
// bits (p = 8 bf16, 11 f16, 24 f32, 53 f64, 30 i32), or for `prod` a power of two. Random reals round at every
// addition, as real data does, and their sum has a bound. Values come from (rank, index, seed) alone: any rank knows
// the answer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "allreduce/element.hpp"
#include "harness/device/dtype.hpp"
#include "harness/report.hpp"

namespace allreduce {

// Elements of a vector.
struct Part {
  std::size_t first = 0, count = 0;
};

// What a rank must end with of a result of `count` elements: all of it, none, or its slice.
Part owed(const Pattern& pattern, int rank, std::size_t count);

// `count` elements of a rank's contribution, and of its result, into host memory. (What a rank does not bring into a
// collective is filled too.)
void fill(const Pattern& pattern, int rank, std::byte* into, std::size_t count);
void fill_answer(const Pattern& pattern, int rank, std::byte* into, std::size_t count);

// Compares a part of a rank's vector in host memory with that part of what is expected; nothing when all elements are
// equal, else how many are not and the first, as of `rank`. compare_numbers takes minus zero for zero, compare_bits
// does not.
std::optional<harness::Wrong> compare_numbers(harness::Dtype dtype, int rank, const std::byte* expected,
                                              const std::byte* got, Part part);
std::optional<harness::Wrong> compare_bits(harness::Dtype dtype, int rank, const std::byte* expected,
                                           const std::byte* got, Part part);
// compare_numbers with the answer, of what the rank is owed of `count` elements.
std::optional<harness::Wrong> compare(const Pattern& pattern, int rank, const std::byte* got, std::size_t count);

enum class Numbers { whole, real };

// Whether a pattern has reals too: sums and averages of floating-point numbers, in a collective that reduces. They are
// uniform in [-1, 1), rounded to the type.
bool has_reals(const Pattern& pattern);
void fill_reals(const Pattern& pattern, int rank, std::byte* into, std::size_t count);

// Compares what the rank is owed with sums in a wider type: a sum of n numbers x in any order errs by at most (n-1) u
// sum|x|, where u is half the distance from 1 to the next number (Jeannerod and Rump, "Improved error bounds for inner
// products in floating-point arithmetic", 2013); an average adds the rounding of one division.
std::optional<harness::Wrong> compare_reals(const Pattern& pattern, int rank, const std::byte* got, std::size_t count);

}  // namespace allreduce
