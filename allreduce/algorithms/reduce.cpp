// SPDX-License-Identifier: Apache-2.0
#include "allreduce/algorithms.hpp"
#include "allreduce/algorithms/lines.hpp"

namespace allreduce {

Schedule direct_reduce(const Shape& shape) {
  Builder build("direct", shape, shape.pieces, Collective::reduce);
  for (int chunk = 0; chunk < shape.pieces; ++chunk) {
    for (int step = 1; step < shape.ranks; ++step) {
      build.reduce(build.at((shape.root + step) % shape.ranks, chunk), shape.root);
    }
  }
  return std::move(build).finish();
}

Schedule tree_reduce(const Shape& shape) {
  Builder build("tree", shape, shape.pieces, Collective::reduce);
  const auto rank = [&](int place) { return (shape.root + place) % shape.ranks; };
  for (int chunk = 0; chunk < shape.pieces; ++chunk) {
    for (int distance = 1; distance < shape.ranks; distance *= 2) {
      for (int parent = 0; parent + distance < shape.ranks; parent += 2 * distance) {
        build.reduce(build.at(rank(parent + distance), chunk), rank(parent));
      }
    }
  }
  return std::move(build).finish();
}

Schedule ring_reduce(const Shape& shape) {
  Builder build("ring", shape, shape.pieces, Collective::reduce);
  for (int chunk = 0; chunk < shape.pieces; ++chunk) reduce_around(build, line_of(shape), shape.root, chunk);
  return std::move(build).finish();
}

}  // namespace allreduce
