// SPDX-License-Identifier: Apache-2.0
#include "allreduce/values.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

namespace allreduce {

namespace {

using harness::Dtype;

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

template <typename Stored, typename Value>
Stored stored(Value value) {
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

template <typename Stored>
Stored element(const std::byte* vector, std::size_t index) {
  Stored value;
  std::memcpy(&value, vector + index * sizeof value, sizeof value);
  return value;
}

template <typename Value>
void write(Dtype dtype, std::byte* into, std::size_t count, const Value& value_at) {
  with_type(dtype, [&](auto type) {
    for (std::size_t index = 0; index < count; ++index) {
      const auto value = stored<decltype(type)>(value_at(index));
      std::memcpy(into + index * sizeof value, &value, sizeof value);
    }
  });
}

// Counts what is wrong on a rank and keeps the first.
class Tally {
 public:
  explicit Tally(int rank) { wrong_.rank = rank; }
  void add(std::size_t index, double expected, double got) {
    if (wrong_.count++ > 0) return;
    wrong_.first_index = static_cast<std::int64_t>(index);
    wrong_.expected = expected;
    wrong_.got = got;
  }
  std::optional<harness::Wrong> wrong() const { return wrong_.count == 0 ? std::nullopt : std::optional(wrong_); }

 private:
  harness::Wrong wrong_;
};

template <typename Same>
std::optional<harness::Wrong> differences(Dtype dtype, int rank, const std::byte* expected, const std::byte* got,
                                          Part part, const Same& same) {
  constexpr std::size_t stretch = 4096;  // elements; equal bits, which is what is found, need no look at each
  Tally tally(rank);
  with_type(dtype, [&](auto type) {
    using Stored = decltype(type);
    const std::size_t last = part.first + part.count;
    for (std::size_t begin = part.first; begin < last; begin += stretch) {
      const std::size_t end = std::min(last, begin + stretch);
      const std::size_t offset = begin * sizeof(Stored);
      if (std::memcmp(expected + offset, got + offset, (end - begin) * sizeof(Stored)) == 0) continue;
      for (std::size_t index = begin; index < end; ++index) {
        const auto wanted = element<Stored>(expected, index);
        const auto found = element<Stored>(got, index);
        if (!same(wanted, found)) tally.add(index, shown(wanted), shown(found));
      }
    }
  });
  return tally.wrong();
}

Part slice_of(const Pattern& pattern, int rank, std::size_t count) {
  const std::size_t first = slice_begin(count, pattern.ranks, rank);
  return {first, slice_begin(count, pattern.ranks, rank + 1) - first};
}

}  // namespace

Part owed(const Pattern& pattern, int rank, std::size_t count) {
  if (pattern.collective == Collective::reduce_scatter) return slice_of(pattern, rank, count);
  if (pattern.collective == Collective::reduce && rank != pattern.root) return {};
  return {0, count};
}

void fill(const Pattern& pattern, int rank, std::byte* into, std::size_t count) {
  write(pattern.dtype, into, count, [&](std::size_t index) { return contribution(pattern, rank, index); });
}

void fill_answer(const Pattern& pattern, int rank, std::byte* into, std::size_t count) {
  write(pattern.dtype, into, count, [&](std::size_t index) { return answer(pattern, rank, index, count); });
}

std::optional<harness::Wrong> compare_numbers(Dtype dtype, int rank, const std::byte* expected, const std::byte* got,
                                              Part part) {
  return differences(dtype, rank, expected, got, part, [](auto a, auto b) { return shown(a) == shown(b); });
}

std::optional<harness::Wrong> compare_bits(Dtype dtype, int rank, const std::byte* expected, const std::byte* got,
                                           Part part) {
  return differences(dtype, rank, expected, got, part,
                     [](auto a, auto b) { return std::memcmp(&a, &b, sizeof a) == 0; });
}

std::optional<harness::Wrong> compare(const Pattern& pattern, int rank, const std::byte* got, std::size_t count) {
  std::vector<std::byte> expected(count * harness::size_of(pattern.dtype));
  fill_answer(pattern, rank, expected.data(), count);
  return compare_numbers(pattern.dtype, rank, expected.data(), got, owed(pattern, rank, count));
}

bool has_reals(const Pattern& pattern) {
  return reduces(pattern.collective) && pattern.dtype != Dtype::i32 &&
         (pattern.op == harness::Op::sum || pattern.op == harness::Op::avg);
}

void fill_reals(const Pattern& pattern, int rank, std::byte* into, std::size_t count) {
  write(pattern.dtype, into, count, [&](std::size_t index) { return real(pattern, rank, index); });
}

std::optional<harness::Wrong> compare_reals(const Pattern& pattern, int rank, const std::byte* got, std::size_t count) {
  Tally tally(rank);
  const bool divides = pattern.op == harness::Op::avg && pattern.ranks > 1;
  const Part part = owed(pattern, rank, count);
  with_type(pattern.dtype, [&](auto type) {
    using Stored = decltype(type);
    // Wide enough that the reference has no error beside the bound.
    using Wide = std::conditional_t<sizeof(Stored) == 8, long double, double>;
    const Wide unit = std::ldexp(Wide{1}, -exact_bits(pattern.dtype));
    const Wide tiniest = pattern.dtype == Dtype::f16 ? Wide{0x1p-24} : Wide{std::numeric_limits<float>::denorm_min()};
    for (std::size_t index = part.first; index < part.first + part.count; ++index) {
      Wide sum = 0;
      Wide magnitude = 0;
      for (int from = 0; from < pattern.ranks; ++from) {
        const auto value = static_cast<Wide>(shown(stored<Stored>(real(pattern, from, index))));
        sum += value;
        magnitude += std::abs(value);
      }
      const Wide found = shown(element<Stored>(got, index));
      Wide bound = (pattern.ranks - 1) * unit * magnitude;
      if (divides) {
        sum /= pattern.ranks;
        bound = bound / pattern.ranks + unit * std::abs(found) + tiniest;
      }
      if (std::abs(found - sum) <= bound) continue;  // a NaN is not
      tally.add(index, static_cast<double>(sum), static_cast<double>(found));
    }
  });
  return tally.wrong();
}

}  // namespace allreduce
