// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "allreduce/algorithms.hpp"
#include "allreduce/algorithms/lines.hpp"

namespace allreduce {

Schedule direct_broadcast(const Shape& shape) {
  Builder build("direct", shape, shape.pieces, Collective::broadcast);
  for (int chunk = 0; chunk < shape.pieces; ++chunk) {
    for (Rank rank = 0; rank < shape.ranks; ++rank) build.copy(build.at(shape.root, chunk), rank);
  }
  return std::move(build).finish();
}

Schedule tree_broadcast(const Shape& shape) {
  Builder build("tree", shape, shape.pieces, Collective::broadcast);
  const auto rank = [&](int place) { return (shape.root + place) % shape.ranks; };
  for (int chunk = 0; chunk < shape.pieces; ++chunk) {
    for (int reach = 1; reach < shape.ranks; reach *= 2) {
      for (int place = reach; place < std::min(2 * reach, shape.ranks); ++place) {
        build.copy(build.at(rank(place - reach), chunk), rank(place));
      }
    }
  }
  return std::move(build).finish();
}

Schedule ring_broadcast(const Shape& shape) {
  Builder build("ring", shape, shape.pieces, Collective::broadcast);
  for (int chunk = 0; chunk < shape.pieces; ++chunk) copy_around(build, line_of(shape), shape.root, chunk);
  return std::move(build).finish();
}

}  // namespace allreduce
