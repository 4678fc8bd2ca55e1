// SPDX-License-Identifier: Apache-2.0
// A schedule is an algorithm of all-reduce, or of another collective, as data: copies and reduces of chunks, with the
// order they need. It knows nothing of bytes, devices or time; `verify` proves it, `cost` counts it, an engine runs it.
// The vector of every rank is cut into `chunks` pieces of almost equal size; a run of pieces is named by its first and
// their number.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "allreduce/collective.hpp"

namespace allreduce {

using Rank = int;
using OpId = std::int32_t;

enum class Space {
  data,     // the vector that is reduced, and holds the result
  scratch,  // places of `scratch_width` pieces each, for what arrives and is still to be reduced
  input     // out of place: the contribution, only ever read
};
enum class Placement { in_place, out_of_place };
enum class Kind { copy, reduce };

struct Chunk {
  Rank rank = 0;
  Space space = Space::data;
  int first = 0, count = 1;  // in pieces; in scratch `first` is the beginning of a place
  friend bool operator==(const Chunk&, const Chunk&) = default;
};

// copy: to = from, across ranks or within one. reduce: to = to (op) from, within one rank.
struct Op {
  Kind kind = Kind::copy;
  Chunk from, to;
  std::vector<OpId> after;  // must have ended before this begins
  int level = 0;            // the longest chain of dependencies before it
};

// How many ranks, in how many pieces each of the algorithm's own chunks is cut for pipelining, where the result goes,
// and how many ranks with numbers in a row make a group, for the algorithms that have groups (0: they choose).
struct Shape {
  int ranks = 1;
  int pieces = 1;
  Placement placement = Placement::in_place;
  int group = 0;
  Rank root = 0;  // of broadcast and reduce
};

// Ops are sorted by level; `after` names earlier ones only.
struct Schedule {
  std::string name;
  Shape shape;
  int chunks = 1;           // pieces that a vector is cut into
  int scratch_width = 1;    // pieces that a scratch place has room for
  std::vector<int> places;  // scratch places, per rank
  std::vector<Op> ops;
  Collective collective = Collective::allreduce;

  // A run of pieces.
  struct Run {
    int first = 0, count = 0;
  };
  // The pieces that a rank brings into the collective, and those that it must end with: all of the vector, none, or
  // (for reduce_scatter and all_gather, whose number of chunks is a multiple of the ranks) the rank's slice.
  Run brings(Rank rank) const;
  Run owes(Rank rank) const;

  int levels() const { return ops.empty() ? 0 : ops.back().level + 1; }
};

// The first piece of the vector that each op is about, also where both its ends lie in scratch.
std::vector<int> first_pieces(const Schedule& schedule);

// "op 7 (copy of chunk 2 from rank 0 to rank 1)", for messages.
std::string describe(const Schedule& schedule, OpId op);

}  // namespace allreduce
