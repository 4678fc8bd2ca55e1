// SPDX-License-Identifier: Apache-2.0
// In which order ranks should stand around a ring. A ring is as fast as its slowest hop, with all hops under way at
// once, so the order decides which links are shared: on a machine whose NVLinks join pairs or a cube, 0 to n-1 often
// crosses what another order avoids.
#pragma once

#include <vector>

#include "allreduce/topology.hpp"

namespace allreduce {

// Bytes per second that every hop of the ring gets when all of them are under way; 0 where some hop has no way.
double ring_rate(Router& router, const std::vector<Rank>& order);

// The order with the highest rate, beginning with rank 0: exact up to ten ranks (branch and bound over all orders;
// of equals the one whose hops are fastest alone, then the first), beyond by exchanging and reversing parts of the best
// found until nothing helps. Empty where no ring joins them all.
std::vector<Rank> best_ring(Router& router);

}  // namespace allreduce
