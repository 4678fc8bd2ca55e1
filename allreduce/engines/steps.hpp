// SPDX-License-Identifier: Apache-2.0
// A schedule as the streams engine runs it: each op on the lane of one rank, in an order in which it can be issued.
// Either op by op, or fused (allreduce/fuse.hpp), where a rank reads and writes its peers' vectors itself.
#pragma once

#include <vector>

#include "allreduce/engine.hpp"
#include "allreduce/schedule.hpp"
#include "allreduce/verify.hpp"

namespace allreduce {

struct Step {
  Kind kind = Kind::copy;
  Chunk from, to;
  int first = 0, count = 1;  // pieces of the vector, also where an end is in scratch
  Rank lane = 0;             // whose stream does it
  bool divides = false;      // an average is complete here
  std::vector<OpId> after;   // earlier steps that must have ended
};

// Of a proved schedule; `verdict` is its proof.
std::vector<Step> steps_of(const Schedule& schedule, const Verdict& verdict, Direction direction);
std::vector<Step> fused_steps_of(const Schedule& schedule, const Verdict& verdict);

}  // namespace allreduce
