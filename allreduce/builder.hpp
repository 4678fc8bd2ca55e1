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
  // `chunks`: pieces that each rank's vector is cut into. Throws harness::Error unless all numbers are positive, there
  // is a root, and a collective that gives each rank a slice can cut one for each.
  Builder(std::string name, const Shape& shape, int chunks, Collective collective = Collective::allreduce);

  // Pieces first to first + count - 1 of a rank's vector.
  Chunk at(Rank rank, int first, int count = 1) const;

  // Copies a chunk over the same pieces of another rank; gives that rank, so that hops can be chained.
  Rank copy(const Chunk& from, Rank to);
  // Adds a chunk into the same pieces of another rank.
  Rank reduce(const Chunk& from, Rank into);

  // A reduce in two halves, where ranks read each other before any of them adds. fetch() brings a chunk as it is now to
  // another rank, beside that rank's own, and names the place where it waits; add() adds it, once, to the rank's own
  // chunk or to another that waits there.
  Chunk fetch(const Chunk& from, Rank to);
  void add(const Chunk& fetched);
  void add(const Chunk& fetched, const Chunk& waiting);

  Schedule finish() &&;

 private:
  // Where a rank's own value of a piece stands. Out of place it stays in the input while what was fetched first waits
  // in data. Nowhere: the rank brings none.
  enum class Own { nowhere, input, input_beside_fetched, data };
  struct Access {
    Own own;
    OpId writer = -1;            // the op that wrote last
    int readers = Lists::empty;  // and those that read since
  };
  // A place in scratch, from the fetch to the one reduce that reads it. Until the end ops name it by its number here.
  struct Wait {
    int piece;  // the first, of the vector
    OpId writer = -1, reader = -1;
    int place = -1;
  };
  Own own(const Chunk& chunk);
  Chunk source(const Chunk& chunk);
  void add_once(const Chunk& fetched, const Chunk& target, Own own);
  // `own`: where the own value of the pieces that are written stands then, if they are written in data.
  void append(Kind kind, const Chunk& from, const Chunk& to, Own own);
  void read(OpId id, const Chunk& chunk);
  void write(OpId id, const Chunk& chunk, Own own);
  std::vector<OpId> place_and_level();
  void sort(const std::vector<OpId>& order);

  Schedule schedule_;
  std::vector<Intervals<Access>> ranks_;
  Lists readers_;
  std::vector<Wait> waits_;
  std::vector<OpId> after_;  // of the op that is being appended
};

}  // namespace allreduce
