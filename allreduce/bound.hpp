// SPDX-License-Identifier: Apache-2.0
// What no all-reduce can beat on a machine. Cut the ranks into g groups: what the groups send each other is at least
// 2(g-1) vectors, since g-1 of them must be added into others and the result must reach g-1 (Patarasuk and Yuan 2009
// for single ranks; the same holds for groups). So the time is at least 2(g-1) vectors over what all groups together
// can send. Where a switch can add, only two groups at a time are counted: each must send its sum and receive the rest.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "allreduce/topology.hpp"

namespace allreduce {

struct Bound {
  double seconds_per_byte = 0;                 // of a rank's vector; 0 for one rank
  std::vector<std::vector<Rank>> groups = {};  // the cut that decides
  double bytes_per_second = 0;                 // what its groups together can send

  double seconds(std::size_t bytes) const { return seconds_per_byte * static_cast<double>(bytes); }
};

// Over single ranks, machines, sockets, switches, what NVLinks join, and, up to eight ranks, every cut in two.
// Links count with the faster of copy engine and kernel.
Bound bound(const Topology& topology);

// Bytes per second that a group of ranks can send to all others, as the largest flow out of it.
double outgoing_rate(const Topology& topology, const std::vector<Rank>& group);

}  // namespace allreduce
