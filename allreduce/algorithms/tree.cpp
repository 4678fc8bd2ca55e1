// SPDX-License-Identifier: Apache-2.0
#include "allreduce/algorithms.hpp"
#include "allreduce/builder.hpp"

namespace allreduce {

Schedule tree(const Shape& shape) {
  Builder build("tree", shape, shape.pieces);
  int span = 1;
  while (span < shape.ranks) span *= 2;
  for (int chunk = 0; chunk < shape.pieces; ++chunk) {
    for (int distance = 1; distance < shape.ranks; distance *= 2) {
      for (Rank parent = 0; parent + distance < shape.ranks; parent += 2 * distance) {
        build.reduce(build.at(parent + distance, chunk), parent);
      }
    }
    for (int distance = span / 2; distance >= 1; distance /= 2) {
      for (Rank parent = 0; parent + distance < shape.ranks; parent += 2 * distance) {
        build.copy(build.at(parent, chunk), parent + distance);
      }
    }
  }
  return std::move(build).finish();
}

}  // namespace allreduce
