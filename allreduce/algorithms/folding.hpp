// SPDX-License-Identifier: Apache-2.0
// The textbook's way of running an algorithm for powers of two on any number of ranks (Thakur, Rabenseifner, Gropp
// 2005, section 4.5): some ranks first give what they have to a neighbour, the others are a power of two and go on, and
// at the end the neighbours give the result back.
#pragma once

#include <bit>
#include <utility>
#include <vector>

#include "allreduce/schedule.hpp"

namespace allreduce {

struct Folding {
  explicit Folding(int ranks) {
    const int power = static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks)));
    const int folded = ranks - power;
    for (int i = 0; i < power; ++i) core.push_back(i < folded ? 2 * i : i + folded);
    for (int i = 0; i < folded; ++i) pairs.emplace_back(2 * i, 2 * i + 1);
  }
  int size() const { return static_cast<int>(core.size()); }

  std::vector<Rank> core;                    // those that go on
  std::vector<std::pair<Rank, Rank>> pairs;  // (goes on, gives what it has)
};

}  // namespace allreduce
