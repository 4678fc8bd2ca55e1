// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "allreduce/algorithms.hpp"
#include "allreduce/algorithms/lines.hpp"

namespace allreduce {

// Chunks lie rank by rank: a rank's slice is its `pieces` chunks.

Schedule ring_all_gather(const Shape& shape) {
  Builder build("ring", shape, shape.ranks * shape.pieces, Collective::all_gather);
  const Line ring = line_of(shape);
  for (int chunk = 0; chunk < shape.ranks * shape.pieces; ++chunk) {
    copy_around(build, ring, chunk / shape.pieces, chunk);
  }
  return std::move(build).finish();
}

Schedule direct_all_gather(const Shape& shape) {
  Builder build("direct", shape, shape.ranks * shape.pieces, Collective::all_gather);
  for (int chunk = 0; chunk < shape.ranks * shape.pieces; ++chunk) {
    const Rank owner = chunk / shape.pieces;
    for (int step = 1; step < shape.ranks; ++step) build.copy(build.at(owner, chunk), (owner + step) % shape.ranks);
  }
  return std::move(build).finish();
}

Schedule dissemination_all_gather(const Shape& shape) {
  const int ranks = shape.ranks;
  Builder build("dissemination", shape, ranks * shape.pieces, Collective::all_gather);
  for (int chunk = 0; chunk < ranks * shape.pieces; ++chunk) {
    const Rank owner = chunk / shape.pieces;
    for (int reach = 1; reach < ranks; reach *= 2) {
      for (int distance = reach; distance < std::min(2 * reach, ranks); ++distance) {
        build.copy(build.at((owner + distance - reach) % ranks, chunk), (owner + distance) % ranks);
      }
    }
  }
  return std::move(build).finish();
}

}  // namespace allreduce
