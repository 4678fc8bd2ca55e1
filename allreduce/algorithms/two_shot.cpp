// SPDX-License-Identifier: Apache-2.0
#include "allreduce/algorithms.hpp"
#include "allreduce/builder.hpp"

namespace allreduce {

Schedule two_shot(const Shape& shape) {
  const int chunks = shape.ranks * shape.pieces;
  Builder build("two_shot", shape, chunks);
  for (int chunk = 0; chunk < chunks; ++chunk) {
    const Rank owner = chunk % shape.ranks;
    // Each owner begins with the rank after it, so that no rank is asked by all at once.
    for (int step = 1; step < shape.ranks; ++step) {
      build.reduce(build.at((owner + step) % shape.ranks, chunk), owner);
    }
    for (int step = 1; step < shape.ranks; ++step) {
      build.copy(build.at(owner, chunk), (owner + step) % shape.ranks);
    }
  }
  return std::move(build).finish();
}

}  // namespace allreduce
