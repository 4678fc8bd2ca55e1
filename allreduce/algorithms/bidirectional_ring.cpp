// SPDX-License-Identifier: Apache-2.0
#include "allreduce/algorithms.hpp"
#include "allreduce/algorithms/lines.hpp"

namespace allreduce {

Schedule bidirectional_ring(const Shape& shape) {
  const Line there = line_of(shape);
  const Line back(there.rbegin(), there.rend());
  const int chunks = 2 * shape.ranks * shape.pieces;
  Builder build("bidirectional_ring", shape, chunks);
  for (int chunk = 0; chunk < chunks; ++chunk) {
    const Line& ring = chunk % 2 == 0 ? there : back;
    const int owner = chunk / 2 % shape.ranks;
    reduce_around(build, ring, owner, chunk);
    copy_around(build, ring, owner, chunk);
  }
  return std::move(build).finish();
}

}  // namespace allreduce
