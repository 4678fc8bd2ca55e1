// SPDX-License-Identifier: Apache-2.0
// The proof of a schedule: a pure function that knows nothing of the builder. A proved schedule is well
// formed; no two accesses of a chunk race; every rank ends with what the collective owes it. Of an all-reduce that is
// every contribution exactly once, added in the same order on all ranks (the same expression tree, so that replicas are
// bitwise equal).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "allreduce/schedule.hpp"

namespace allreduce {

struct Verdict {
  bool proved = false;
  std::string reason;            // the first thing that is wrong, with op and ranks named; empty when proved
  std::vector<OpId> completing;  // the reduces that bring in the last contribution of a chunk: avg divides there
  std::size_t work = 0;          // intervals, dependencies and runs of ranks looked at: what the proof cost
};

Verdict verify(const Schedule& schedule);

}  // namespace allreduce
