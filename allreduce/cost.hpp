// SPDX-License-Identifier: Apache-2.0
// What a schedule costs whatever it runs on, counted against what no all-reduce can undercut.
#pragma once

#include "allreduce/schedule.hpp"

namespace allreduce {

// Counted in vectors (1 = all the bytes of one rank).
struct Cost {
  int steps = 0;        // copies across ranks on the longest chain of dependencies: the latency term
  double sent = 0;      // by the busiest rank
  double received = 0;  // by the busiest rank
  double reduced = 0;   // by the busiest rank
  // No all-reduce does with less: ceil(log2 n) steps where a rank sends and receives one message at a time, 2(n-1)/n
  // sent by the busiest rank (Patarasuk and Yuan 2009), and n - 1 additions of a vector, shared evenly.
  int least_steps = 0;
  double least_sent = 0, least_reduced = 0;
};

Cost cost(const Schedule& schedule);

}  // namespace allreduce
