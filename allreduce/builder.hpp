// SPDX-License-Identifier: Apache-2.0
// Records an algorithm, written as the sequential program that a textbook would print, and makes a Schedule of it: the
// dependencies are inferred (a reader follows the last writer of a chunk, a writer follows the readers since), places
// in scratch are given out level by level, and out of place each contribution is read from the input where it is first
// needed, so that no extra copy is made.
#pragma once

#include <string>

#include "allreduce/intervals.hpp"
#include "allreduce/schedule.hpp"

namespace allreduce {

class Builder {
 public:
  // `chunks`: pieces that each rank's vector is cut into. Throws harness::Error unless all numbers are positive.
  Builder(std::string name, const Shape& shape, int chunks);

  // Pieces first to first + count - 1 of a rank's vector.
  Chunk at(Rank rank, int first, int count = 1) const;

  // Copies a chunk over the same pieces of another rank; gives that rank, so that hops can be chained.
  Rank copy(const Chunk& from, Rank to);
  // Adds a chunk into the same pieces of another rank.
  Rank reduce(const Chunk& from, Rank into);

  Schedule finish() &&;

 private:
  struct Access {
    bool written = false;       // a value of its own stands in data; before, out of place, it stands in the input
    OpId writer = -1;           // the op that wrote last
    std::vector<OpId> readers;  // and who read since
  };
  Chunk source(const Chunk& chunk);
  OpId add(Kind kind, const Chunk& from, const Chunk& to);
  void depend(Op& op, const Chunk& chunk, bool writes);
  void place_and_level();

  Schedule schedule_;
  std::vector<Intervals<Access>> ranks_;
  std::vector<OpId> consumer_;  // of a copy into scratch: the reduce that reads it; else -1
};

}  // namespace allreduce
