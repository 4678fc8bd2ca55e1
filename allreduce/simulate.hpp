// SPDX-License-Identifier: Apache-2.0
// The time of a schedule on a described machine, as our streams engine would run it: one stream a rank does its ops one
// after another, copies that are under way at once share links max-min fairly (see fluid.hpp), an op waits for what it
// depends on, and each has a fixed cost. Exact for that model and deterministic; the clock counts whole picoseconds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "allreduce/engine.hpp"
#include "allreduce/topology.hpp"

namespace allreduce {

// Seconds of the software around the copies; all 0 leaves the pure machine. Those of the host add up over all ops, and
// hide behind the devices' work or the other way round; a recorded graph has one launch instead.
struct StreamsCosts {
  double issue_copy = 0, issue_staged_copy = 0, issue_reduce = 0, issue_wait = 0;  // on the host, each
  double start_copy = 0, start_reduce = 0;                                         // on the device, each
  double wait = 0;                          // until a stream sees what another has done
  double graph_launch = 0, graph_node = 0;  // on the host: of a recording, and for each op in it
};

struct Workload {
  std::size_t count = 0;  // elements of each rank's vector
  std::size_t element_bytes = 4;
  Launch launch = Launch::graph;
};

struct LinkLoad {
  int link;
  double bytes;
  double utilisation;  // bytes over what it could have carried in that time
};

struct Timeline {
  std::int64_t picoseconds = 0;
  std::vector<LinkLoad> loads = {};  // of every link that carried anything, the busiest first
  std::string reason = {};           // what the time goes into, along the critical path
  double seconds() const { return static_cast<double>(picoseconds) * 1e-12; }
};

// The schedule has to be a proved one for as many ranks as the router's topology has.
Timeline simulate(const Schedule& schedule, Router& router, const Workload& workload, const StreamsCosts& costs);

}  // namespace allreduce
