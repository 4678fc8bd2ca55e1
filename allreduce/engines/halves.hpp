// SPDX-License-Identifier: Apache-2.0
// One rank's part of a schedule, for a process that runs that rank alone: its own copies and reduces, and its halves of
// the copies between ranks, each a message. Two ops that may not run at once touch a chunk of one rank, which both its
// halves know: so each rank keeps the order by itself, and no other message is needed. Messages from one rank to
// another are numbered in the order of the schedule, on both ends alike.
#pragma once

#include <cstdint>
#include <vector>

#include "allreduce/schedule.hpp"
#include "allreduce/verify.hpp"

namespace allreduce {

struct Half {
  enum class Kind { send, receive, copy, reduce };
  Kind kind = Kind::copy;
  OpId op = 0;
  Chunk from = {}, to = {};  // `from` is this rank's but in what it receives, `to` but in what it sends
  int first = 0, count = 1;  // pieces of the vector, also where an end is in scratch
  bool divides = false;      // an average is complete here
  int message = 0;           // number among those of the same sender and receiver
  std::vector<int> after;    // earlier halves of this rank that must have ended before this begins
};

// Of a proved schedule, in its order; `verdict` is its proof.
std::vector<Half> halves_of(const Schedule& schedule, const Verdict& verdict, Rank rank);

}  // namespace allreduce
