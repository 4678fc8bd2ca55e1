// SPDX-License-Identifier: Apache-2.0
// The proof of a schedule, and its cost: pure functions that know nothing of the builder. A proved schedule is well
// formed; no two accesses of a chunk race; every rank ends with every contribution exactly once, added in the same
// order on all ranks (the same expression tree, so that replicas are bitwise equal).
#pragma once

#include <string>
#include <vector>

#include "allreduce/schedule.hpp"

namespace allreduce {

struct Verdict {
  bool proved = false;
  std::string reason;            // the first thing that is wrong, with op and ranks named; empty when proved
  std::vector<OpId> completing;  // the reduces that bring in the last contribution of a chunk: avg divides there
};

Verdict verify(const Schedule& schedule);

// Counted in vectors (1 = all the bytes of one rank).
struct Cost {
  int steps = 0;          // copies across ranks on the longest chain of dependencies: the latency term
  double sent = 0;        // by the busiest rank
  double received = 0;    // by the busiest rank
  double reduced = 0;     // by the busiest rank
  double least_sent = 0;  // no all-reduce lets every rank send less: 2(n-1)/n (Patarasuk and Yuan 2009)
  int least_steps = 0;    // ceil(log2 n)
};

Cost cost(const Schedule& schedule);

}  // namespace allreduce
