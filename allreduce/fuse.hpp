// SPDX-License-Identifier: Apache-2.0
// What a schedule becomes where every rank can read and write its peers' memory: for each rank a list of moves that one
// thread does in order. A move passes over its pieces once; it may read them from several ranks, add them up, and write
// the sum to several. That saves the trip through scratch memory (a copy from a peer, then a reduce), and the one
// through memory (a reduce, then a copy of its sum to a peer), while each value is added in the schedule's order.
#pragma once

#include <vector>

#include "allreduce/schedule.hpp"
#include "allreduce/verify.hpp"

namespace allreduce {

// `count` pieces from `first` on: to[0] = from[0] (op) from[1] (op) ..., and the same to every further `to`. to[0] is
// on the rank whose move it is. from[0] may be to[0]; any `to` may be a `from`.
struct Move {
  int first = 0, count = 1;
  std::vector<Chunk> from, to;
  bool divides = false;  // an average is complete here
  struct After {
    Rank rank;
    int moves;  // so many of that rank's moves must have ended
  };
  std::vector<After> after;  // on other ranks; the rank's own earlier moves have ended
};

// The moves of each rank. `schedule` is proved, `verdict` its proof.
std::vector<std::vector<Move>> fuse(const Schedule& schedule, const Verdict& verdict);

}  // namespace allreduce
