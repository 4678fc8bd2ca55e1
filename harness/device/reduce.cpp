// SPDX-License-Identifier: Apache-2.0
#include "harness/device/reduce.hpp"

#include <array>
#include <cmath>
#include <type_traits>
#include <utility>

namespace harness {

namespace {

struct DtypeRow {
  Dtype dtype;
  std::string_view name, alias;  // the alias is nccl-tests' name
  std::size_t bytes;
};
constexpr std::array dtypes = {
    DtypeRow{Dtype::f32, "f32", "float", 4}, DtypeRow{Dtype::f64, "f64", "double", 8},
    DtypeRow{Dtype::f16, "f16", "half", 2},  DtypeRow{Dtype::bf16, "bf16", "bfloat16", 2},
    DtypeRow{Dtype::i32, "i32", "int32", 4},
};

constexpr std::array<std::pair<Op, std::string_view>, 5> ops = {
    {{Op::sum, "sum"}, {Op::avg, "avg"}, {Op::min, "min"}, {Op::max, "max"}, {Op::prod, "prod"}}};

template <Op op, typename Value>
Value combine(Value a, Value b) {
  if constexpr (op == Op::sum || op == Op::avg) return a + b;
  if constexpr (op == Op::prod) return a * b;
  if constexpr (op == Op::min) return a < b || a != a ? a : b;  // NOLINT(misc-redundant-expression): a != a is a NaN
  if constexpr (op == Op::max) return a > b || a != a ? a : b;  // NOLINT(misc-redundant-expression)
}

// The type that an element of type `Stored` is added in.
template <typename Stored>
using Computed = std::conditional_t<sizeof(Stored) == 2, float, Stored>;

template <Op op, typename Stored>
void loop(const void* from, void* into, std::size_t count, int divisor) {
  const auto* source = static_cast<const Stored*>(from);
  auto* target = static_cast<Stored*>(into);
  using Value = Computed<Stored>;
  if (divisor == 1) {
    for (std::size_t i = 0; i < count; ++i) {
      target[i] = static_cast<Stored>(combine<op, Value>(static_cast<Value>(target[i]), static_cast<Value>(source[i])));
    }
  } else {
    const auto by = static_cast<Value>(divisor);
    for (std::size_t i = 0; i < count; ++i) {
      target[i] =
          static_cast<Stored>(combine<op, Value>(static_cast<Value>(target[i]), static_cast<Value>(source[i])) / by);
    }
  }
}

// Integers add and multiply as unsigned numbers, which wrap around; they compare and divide as signed ones.
template <Op op>
void loop_i32(const void* from, void* into, std::size_t count, int divisor) {
  const auto* source = static_cast<const std::int32_t*>(from);
  auto* target = static_cast<std::int32_t*>(into);
  for (std::size_t i = 0; i < count; ++i) {
    if constexpr (op == Op::min || op == Op::max) {
      target[i] = combine<op, std::int32_t>(target[i], source[i]);
    } else {
      const auto value = static_cast<std::int32_t>(
          combine<op, std::uint32_t>(static_cast<std::uint32_t>(target[i]), static_cast<std::uint32_t>(source[i])));
      target[i] = divisor == 1 ? value : value / divisor;
    }
  }
}

template <Op op>
void by_dtype(const void* from, void* into, std::size_t count, const Reduction& reduction) {
  switch (reduction.dtype) {
    case Dtype::f32: return loop<op, float>(from, into, count, reduction.divisor);
    case Dtype::f64: return loop<op, double>(from, into, count, reduction.divisor);
    case Dtype::f16: return loop<op, Half>(from, into, count, reduction.divisor);
    case Dtype::bf16: return loop<op, Bfloat16>(from, into, count, reduction.divisor);
    case Dtype::i32: return loop_i32<op>(from, into, count, reduction.divisor);
  }
}

}  // namespace

std::size_t size_of(Dtype dtype) { return dtypes[static_cast<std::size_t>(dtype)].bytes; }
std::string_view name(Dtype dtype) { return dtypes[static_cast<std::size_t>(dtype)].name; }
std::string_view name(Op op) { return ops[static_cast<std::size_t>(op)].second; }

std::optional<Dtype> parse_dtype(std::string_view text) {
  for (const auto& row : dtypes) {
    if (row.name == text || row.alias == text) return row.dtype;
  }
  return std::nullopt;
}

std::optional<Op> parse_op(std::string_view text) {
  for (const auto& [op, op_name] : ops) {
    if (op_name == text) return op;
  }
  return std::nullopt;
}

void reduce_on_host(const void* from, void* into, std::size_t count, const Reduction& reduction) {
  switch (reduction.op) {
    case Op::sum:
    case Op::avg: return by_dtype<Op::sum>(from, into, count, reduction);
    case Op::min: return by_dtype<Op::min>(from, into, count, reduction);
    case Op::max: return by_dtype<Op::max>(from, into, count, reduction);
    case Op::prod: return by_dtype<Op::prod>(from, into, count, reduction);
  }
}

}  // namespace harness
