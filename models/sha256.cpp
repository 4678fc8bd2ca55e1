// SPDX-License-Identifier: Apache-2.0
#include "models/sha256.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <vector>

namespace models {

namespace {

using Words = std::array<std::uint32_t, 8>;

// The constants are the first 32 bits of the fractional parts of roots of the first primes (section 4.2.2, 5.3.3).
struct Constants {
  std::array<std::uint32_t, 64> rounds{};
  Words start{};

  Constants() {
    std::size_t found = 0;
    for (int number = 2; found < rounds.size(); ++number) {
      bool prime = true;
      for (int divisor = 2; divisor * divisor <= number; ++divisor) prime = prime && number % divisor != 0;
      if (!prime) continue;
      rounds[found] = fraction(std::cbrt(static_cast<long double>(number)));
      if (found < start.size()) start[found] = fraction(std::sqrt(static_cast<long double>(number)));
      ++found;
    }
  }
  static std::uint32_t fraction(long double root) {
    return static_cast<std::uint32_t>((root - std::floor(root)) * 4294967296.0L);
  }
};

void absorb(Words& hash, const std::uint8_t* block, const Constants& constants) {
  std::array<std::uint32_t, 64> schedule{};
  for (std::size_t i = 0; i < 16; ++i) {
    for (std::size_t byte = 0; byte < 4; ++byte) schedule[i] = schedule[i] << 8 | block[4 * i + byte];
  }
  for (std::size_t i = 16; i < 64; ++i) {
    const std::uint32_t a = schedule[i - 15];
    const std::uint32_t b = schedule[i - 2];
    schedule[i] = schedule[i - 16] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ a >> 3) + schedule[i - 7] +
                  (std::rotr(b, 17) ^ std::rotr(b, 19) ^ b >> 10);
  }
  auto [a, b, c, d, e, f, g, h] = hash;
  for (std::size_t i = 0; i < 64; ++i) {
    const std::uint32_t first = h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) + ((e & f) ^ (~e & g)) +
                                constants.rounds[i] + schedule[i];
    const std::uint32_t second =
        (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g;
    g = f;
    f = e;
    e = d + first;
    d = c;
    c = b;
    b = a;
    a = first + second;
  }
  const Words change = {a, b, c, d, e, f, g, h};
  for (std::size_t i = 0; i < hash.size(); ++i) hash[i] += change[i];
}

}  // namespace

std::string sha256(std::span<const std::uint8_t> bytes) {
  const Constants constants;
  Words hash = constants.start;
  const std::size_t whole = bytes.size() / 64 * 64;
  for (std::size_t at = 0; at < whole; at += 64) absorb(hash, bytes.data() + at, constants);
  std::vector<std::uint8_t> tail(bytes.begin() + static_cast<std::ptrdiff_t>(whole), bytes.end());
  tail.push_back(0x80);
  while (tail.size() % 64 != 56) tail.push_back(0);
  for (int shift = 56; shift >= 0; shift -= 8) {
    tail.push_back(static_cast<std::uint8_t>(std::uint64_t{bytes.size()} * 8 >> shift));
  }
  for (std::size_t at = 0; at < tail.size(); at += 64) absorb(hash, tail.data() + at, constants);
  std::string text;
  for (const std::uint32_t word : hash) {
    for (int shift = 28; shift >= 0; shift -= 4) text += "0123456789abcdef"[word >> shift & 15U];
  }
  return text;
}

}  // namespace models
