// SPDX-License-Identifier: Apache-2.0
// One element of the vectors of values.hpp, from (rank, index, seed) alone. C++17 and constant expressions only, so
// that GPUs compute the same.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "allreduce/collective.hpp"
#include "harness/device/reduction.hpp"
#include "harness/random.hpp"

namespace allreduce {

struct Pattern {
  harness::Dtype dtype = harness::Dtype::f32;
  harness::Op op = harness::Op::sum;
  int ranks = 1;
  std::uint64_t seed = 1;
  Collective collective = Collective::allreduce;
  int root = 0;  // of broadcast and reduce
};

// Random bits of an element.
constexpr std::uint64_t draw(const Pattern& pattern, int rank, std::size_t index) {
  return harness::splitmix64(harness::splitmix64(pattern.seed * 0x10001ULL + static_cast<std::uint64_t>(rank)) ^ index);
}

// Of the integers that a type holds exactly.
constexpr int exact_bits(harness::Dtype dtype) {
  switch (dtype) {
    case harness::Dtype::bf16: return 8;
    case harness::Dtype::f16: return 11;
    case harness::Dtype::f32: return 24;
    case harness::Dtype::f64: return 53;
    case harness::Dtype::i32: return 30;
  }
  return 0;
}

constexpr int most_twos = 14;

// Element `index` of a rank's contribution, and of all contributions reduced. Whole numbers.
constexpr std::int64_t contribution(const Pattern& pattern, int rank, std::size_t index) {
  const std::uint64_t bits = draw(pattern, rank, index);
  if (pattern.op == harness::Op::prod) {
    // Which ranks may bring a two goes round with the index, so that there are never more than `most_twos`.
    const bool may_be_two = (static_cast<std::size_t>(rank) + index) % pattern.ranks < most_twos;
    const std::uint64_t pick = bits % 3;
    return pick == 0 ? 1 : pick == 1 ? -1 : may_be_two ? 2 : 1;
  }
  const std::int64_t whole = std::int64_t{1} << exact_bits(pattern.dtype);
  // avg: a multiple of the number of ranks, whose sum then divides exactly.
  const std::int64_t factor = pattern.op == harness::Op::avg ? pattern.ranks : 1;
  const std::int64_t most = whole / pattern.ranks / factor;
  if (most == 0) {  // Too many ranks for all of them; who may bring one goes round with the index.
    const bool may = (static_cast<std::size_t>(rank) + index) % pattern.ranks < std::size_t(whole / factor);
    return may ? (bits % 2 == 0 ? factor : -factor) : 0;
  }
  return (static_cast<std::int64_t>(bits % static_cast<std::uint64_t>(2 * most + 1)) - most) * factor;
}

constexpr std::int64_t reduced(const Pattern& pattern, std::size_t index) {
  std::int64_t result = contribution(pattern, 0, index);
  for (int rank = 1; rank < pattern.ranks; ++rank) {
    const std::int64_t value = contribution(pattern, rank, index);
    switch (pattern.op) {
      case harness::Op::sum:
      case harness::Op::avg: result += value; break;
      case harness::Op::min: result = std::min(result, value); break;
      case harness::Op::max: result = std::max(result, value); break;
      case harness::Op::prod: result *= value; break;
    }
  }
  return pattern.op == harness::Op::avg ? result / pattern.ranks : result;
}

// Whose slice an element is in when `count` are shared out.
constexpr int slice_of_index(std::size_t count, int slices, std::size_t index) {
  int slice = static_cast<int>(static_cast<double>(index) / static_cast<double>(count) * slices);
  while (slice_begin(count, slices, slice) > index) --slice;
  while (slice_begin(count, slices, slice + 1) <= index) ++slice;
  return slice;
}

// Element `index` of a rank's result, of `count`: whole numbers.
constexpr std::int64_t answer(const Pattern& pattern, int rank, std::size_t index, std::size_t count) {
  switch (pattern.collective) {
    case Collective::broadcast: return contribution(pattern, pattern.root, index);
    case Collective::all_gather: return contribution(pattern, slice_of_index(count, pattern.ranks, index), index);
    case Collective::all_to_all: {  // of slices of one size
      const int from = slice_of_index(count, pattern.ranks, index);
      const std::size_t within = index - slice_begin(count, pattern.ranks, from);
      return contribution(pattern, from, slice_begin(count, pattern.ranks, rank) + within);
    }
    case Collective::send_recv: return contribution(pattern, (rank + pattern.ranks - 1) % pattern.ranks, index);
    case Collective::allreduce:
    case Collective::reduce_scatter:
    case Collective::reduce: break;
  }
  return reduced(pattern, index);
}

// The same of the random reals, in [-1, 1), before they are rounded to the type.
constexpr double real(const Pattern& pattern, int rank, std::size_t index) {
  return static_cast<double>(draw(pattern, rank, index) >> 11) * 0x1p-52 - 1;
}

}  // namespace allreduce
