// SPDX-License-Identifier: Apache-2.0
#include "allreduce/values.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "harness/random.hpp"

namespace allreduce {

namespace {

using harness::Dtype;
using harness::Op;

std::uint64_t draw(const Pattern& pattern, int rank, std::size_t index) {
  return harness::splitmix64(harness::splitmix64(pattern.seed * 0x10001ULL + static_cast<std::uint64_t>(rank)) ^ index);
}

int exact_bits(Dtype dtype) {
  switch (dtype) {
    case Dtype::bf16: return 8;
    case Dtype::f16: return 11;
    case Dtype::f32: return 24;
    case Dtype::f64: return 53;
    case Dtype::i32: return 30;
  }
  return 0;
}

constexpr int most_twos = 14;

template <typename Visit>
void with_type(Dtype dtype, Visit&& visit) {
  switch (dtype) {
    case Dtype::f32: return visit(float{});
    case Dtype::f64: return visit(double{});
    case Dtype::f16: return visit(harness::Half{});
    case Dtype::bf16: return visit(harness::Bfloat16{});
    case Dtype::i32: return visit(std::int32_t{});
  }
}

template <typename Stored>
Stored stored(std::int64_t value) {
  if constexpr (sizeof(Stored) == 2) {
    return static_cast<Stored>(static_cast<float>(value));
  } else {
    return static_cast<Stored>(value);
  }
}

template <typename Stored>
double shown(Stored value) {
  if constexpr (sizeof(Stored) == 2) {
    return static_cast<double>(static_cast<float>(value));
  } else {
    return static_cast<double>(value);
  }
}

}  // namespace

std::int64_t contribution(const Pattern& pattern, int rank, std::size_t index) {
  const std::uint64_t bits = draw(pattern, rank, index);
  if (pattern.op == Op::prod) {
    // Which ranks may bring a two goes round with the index, so that there are never more than `most_twos`.
    const bool may_be_two = (static_cast<std::size_t>(rank) + index) % pattern.ranks < most_twos;
    const std::uint64_t pick = bits % 3;
    return pick == 0 ? 1 : pick == 1 ? -1 : may_be_two ? 2 : 1;
  }
  const std::int64_t whole = std::int64_t{1} << exact_bits(pattern.dtype);
  // avg: a multiple of the number of ranks, whose sum then divides exactly.
  const std::int64_t factor = pattern.op == Op::avg ? pattern.ranks : 1;
  const std::int64_t most = std::max<std::int64_t>(1, whole / pattern.ranks / factor);
  return (static_cast<std::int64_t>(bits % static_cast<std::uint64_t>(2 * most + 1)) - most) * factor;
}

std::int64_t answer(const Pattern& pattern, std::size_t index) {
  std::int64_t result = contribution(pattern, 0, index);
  for (int rank = 1; rank < pattern.ranks; ++rank) {
    const std::int64_t value = contribution(pattern, rank, index);
    switch (pattern.op) {
      case Op::sum:
      case Op::avg: result += value; break;
      case Op::min: result = std::min(result, value); break;
      case Op::max: result = std::max(result, value); break;
      case Op::prod: result *= value; break;
    }
  }
  return pattern.op == Op::avg ? result / pattern.ranks : result;
}

void fill(const Pattern& pattern, int rank, std::byte* into, std::size_t count) {
  with_type(pattern.dtype, [&](auto type) {
    using Stored = decltype(type);
    for (std::size_t index = 0; index < count; ++index) {
      const Stored value = stored<Stored>(contribution(pattern, rank, index));
      std::memcpy(into + index * sizeof value, &value, sizeof value);
    }
  });
}

std::optional<harness::Wrong> compare(const Pattern& pattern, int rank, const std::byte* got, std::size_t count) {
  harness::Wrong wrong;
  wrong.rank = rank;
  with_type(pattern.dtype, [&](auto type) {
    using Stored = decltype(type);
    for (std::size_t index = 0; index < count; ++index) {
      const Stored expected = stored<Stored>(answer(pattern, index));
      Stored found;
      std::memcpy(&found, got + index * sizeof found, sizeof found);
      // A zero may come out as minus zero; anything else must be the same number.
      if (shown(found) == shown(expected)) continue;
      if (wrong.count++ > 0) continue;
      wrong.first_index = static_cast<std::int64_t>(index);
      wrong.expected = shown(expected);
      wrong.got = shown(found);
    }
  });
  if (wrong.count == 0) return std::nullopt;
  return wrong;
}

}  // namespace allreduce
