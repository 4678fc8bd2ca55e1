// SPDX-License-Identifier: Apache-2.0
// Random numbers that any language can repeat: splitmix64 of Steele, Lea, Flood, "Fast splittable pseudorandom number
// generators" (OOPSLA 2014), asked by index.
#pragma once

#include <cstdint>

namespace harness {

constexpr std::uint64_t splitmix64(std::uint64_t x) {
  std::uint64_t z = x + 0x9E3779B97F4A7C15ULL;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

// Uniform in [-bound, bound), computed in double and rounded once.
inline float uniform(std::uint64_t index, double bound) {
  const double unit = static_cast<double>(splitmix64(index) >> 11) * 0x1p-53;
  return static_cast<float>((unit - 0.5) * 2.0 * bound);
}

}  // namespace harness
