// SPDX-License-Identifier: Apache-2.0
#include "allreduce/algorithms.hpp"
#include "allreduce/builder.hpp"

namespace allreduce {

Schedule one_shot(const Shape& shape) {
  Builder build("one_shot", shape, shape.pieces);
  for (int chunk = 0; chunk < shape.pieces; ++chunk) {
    std::vector<std::vector<Chunk>> fetched(shape.ranks);
    for (Rank reader = 0; reader < shape.ranks; ++reader) {
      for (Rank rank = 0; rank < shape.ranks; ++rank) {
        fetched[reader].push_back(rank == reader ? Chunk{} : build.fetch(build.at(rank, chunk), reader));
      }
    }
    // All add in the order of ranks, so that all get the same bits: what comes before the own vector beside it, then
    // the own, then the rest.
    for (Rank reader = 0; reader < shape.ranks; ++reader) {
      for (Rank rank = 1; rank < reader; ++rank) build.add(fetched[reader][rank], fetched[reader][0]);
      if (reader > 0) build.add(fetched[reader][0]);
      for (Rank rank = reader + 1; rank < shape.ranks; ++rank) build.add(fetched[reader][rank]);
    }
  }
  return std::move(build).finish();
}

}  // namespace allreduce
