// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "allreduce/algorithms.hpp"
#include "allreduce/algorithms/lines.hpp"

namespace allreduce {

// Chunks lie rank by rank: a rank's slice is its `pieces` chunks.

Schedule ring_reduce_scatter(const Shape& shape) {
  Builder build("ring", shape, shape.ranks * shape.pieces, Collective::reduce_scatter);
  const Line ring = line_of(shape);
  for (int chunk = 0; chunk < shape.ranks * shape.pieces; ++chunk) {
    reduce_around(build, ring, chunk / shape.pieces, chunk);
  }
  return std::move(build).finish();
}

Schedule direct_reduce_scatter(const Shape& shape) {
  Builder build("direct", shape, shape.ranks * shape.pieces, Collective::reduce_scatter);
  for (int chunk = 0; chunk < shape.ranks * shape.pieces; ++chunk) {
    const Rank owner = chunk / shape.pieces;
    for (int step = 1; step < shape.ranks; ++step) build.reduce(build.at((owner + step) % shape.ranks, chunk), owner);
  }
  return std::move(build).finish();
}

Schedule dissemination_reduce_scatter(const Shape& shape) {
  const int ranks = shape.ranks;
  Builder build("dissemination", shape, ranks * shape.pieces, Collective::reduce_scatter);
  for (int chunk = 0; chunk < ranks * shape.pieces; ++chunk) {
    // Distance d from the owner goes to d - 2^k, where 2^k is the highest bit of d: the farthest half first.
    const Rank owner = chunk / shape.pieces;
    int reach = 1;
    while (2 * reach < ranks) reach *= 2;
    for (; reach >= 1; reach /= 2) {
      for (int distance = reach; distance < std::min(2 * reach, ranks); ++distance) {
        build.reduce(build.at((owner + distance) % ranks, chunk), (owner + distance - reach) % ranks);
      }
    }
  }
  return std::move(build).finish();
}

}  // namespace allreduce
