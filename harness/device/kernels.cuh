// SPDX-License-Identifier: Apache-2.0
// The bodies of this floor's kernels. They use nothing that a plain C++ compiler cannot be taught (no inline PTX, no
// static linkage), so that tests compile this very file for the host and find each kernel by its mangled name.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstddef>
#include <cstdint>

#include "harness/device/reduction.hpp"

namespace harness::kernels {

// The type that an element is added in: 16-bit types compute in float and round once, integers wrap as unsigned ones.
template <typename Stored>
struct Arithmetic {
  using Value = Stored;
  __device__ static Value load(Stored stored) { return stored; }
  __device__ static Stored store(Value value) { return value; }
};
template <>
struct Arithmetic<__half> {
  using Value = float;
  __device__ static Value load(__half stored) { return __half2float(stored); }
  __device__ static __half store(Value value) { return __float2half_rn(value); }
};
template <>
struct Arithmetic<__nv_bfloat16> {
  using Value = float;
  __device__ static Value load(__nv_bfloat16 stored) { return __bfloat162float(stored); }
  __device__ static __nv_bfloat16 store(Value value) { return __float2bfloat16_rn(value); }
};

template <Op op, typename Value>
__device__ inline Value combine(Value a, Value b) {
  if constexpr (op == Op::prod) return a * b;
  if constexpr (op == Op::min) return a < b || a != a ? a : b;  // a != a is a NaN
  if constexpr (op == Op::max) return a > b || a != a ? a : b;
  return a + b;
}
template <Op op>
__device__ inline std::int32_t combine(std::int32_t a, std::int32_t b) {
  if constexpr (op == Op::min || op == Op::max) return combine<op, std::int32_t>(a, b);
  const auto unsigned_a = static_cast<std::uint32_t>(a), unsigned_b = static_cast<std::uint32_t>(b);
  return static_cast<std::int32_t>(combine<op, std::uint32_t>(unsigned_a, unsigned_b));
}

template <typename Stored, Op op>
__device__ inline Stored reduced(Stored into, Stored from, int divisor) {
  using Value = typename Arithmetic<Stored>::Value;
  Value value = combine<op>(Arithmetic<Stored>::load(into), Arithmetic<Stored>::load(from));
  if (divisor > 1) value = value / static_cast<Value>(divisor);
  return Arithmetic<Stored>::store(value);
}

// What one access moves: 16 bytes, the most that a thread can ask for at once.
template <typename Stored>
struct alignas(16) Pack {
  static constexpr int width = 16 / sizeof(Stored);
  Stored element[width];
};

// into[i] = into[i] (op) from[i], divided where divisor > 1. Elements before `head` and behind the last whole pack go
// one by one; the packs between them need both ends aligned to 16 bytes at `head`. Without such a place head = count.
template <typename Stored, Op op>
__global__ void reduce(const Stored* from, Stored* into, std::size_t count, std::size_t head, int divisor) {
  constexpr int width = Pack<Stored>::width;
  const std::size_t begin = std::size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  const std::size_t stride = std::size_t(gridDim.x) * blockDim.x;
  const std::size_t packs = (count - head) / width;
  const auto* from_packs = reinterpret_cast<const Pack<Stored>*>(from + head);
  auto* into_packs = reinterpret_cast<Pack<Stored>*>(into + head);
  for (std::size_t i = begin; i < packs; i += stride) {
    const Pack<Stored> source = from_packs[i];
    Pack<Stored> target = into_packs[i];
    for (int k = 0; k < width; ++k)
      target.element[k] = reduced<Stored, op>(target.element[k], source.element[k], divisor);
    into_packs[i] = target;
  }
  const std::size_t tail = head + packs * width;
  for (std::size_t i = begin; i < head + (count - tail); i += stride) {
    const std::size_t at = i < head ? i : tail + (i - head);
    into[at] = reduced<Stored, op>(into[at], from[at], divisor);
  }
}

}  // namespace harness::kernels
