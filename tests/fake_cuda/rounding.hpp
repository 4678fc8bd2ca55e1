// SPDX-License-Identifier: Apache-2.0
// Numbers as the tensor cores of a GPU take them: what the fake cuDNN and cuBLAS multiply is rounded first, as the real
// ones' arithmetic does, so that tests see which was asked for.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <vector>

namespace fake {

// bf16 is a type in memory too, and has 8 bits of mantissa with the one that is not written; tf32 has 11, of floats.
enum class Rounding { none, tf32, bf16 };

inline std::size_t bytes_of(Rounding type) { return type == Rounding::bf16 ? 2 : sizeof(float); }

// To the nearest, of two the even one; `bits` of a float's mantissa are dropped.
inline float rounded(float value, unsigned bits) {
  const auto all = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t half = std::uint32_t{1} << (bits - 1), odd = all >> bits & 1U;
  return std::bit_cast<float>((all + half - 1 + odd) >> bits << bits);
}

// `count` elements of `type`, as factors that are rounded to `rounding`.
inline std::vector<float> load(const void* from, std::size_t count, Rounding type, Rounding rounding) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (type == Rounding::bf16) {
      std::uint16_t half = 0;
      std::memcpy(&half, static_cast<const char*>(from) + 2 * i, sizeof half);
      values[i] = std::bit_cast<float>(std::uint32_t{half} << 16U);
    } else {
      std::memcpy(&values[i], static_cast<const char*>(from) + 4 * i, sizeof(float));
      if (rounding == Rounding::tf32) values[i] = rounded(values[i], 13);
    }
  }
  return values;
}

inline void store(const std::vector<float>& values, void* to, Rounding type) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (type == Rounding::bf16) {
      const auto half = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(rounded(values[i], 16)) >> 16U);
      std::memcpy(static_cast<char*>(to) + 2 * i, &half, sizeof half);
    } else {
      std::memcpy(static_cast<char*>(to) + 4 * i, &values[i], sizeof(float));
    }
  }
}

}  // namespace fake
