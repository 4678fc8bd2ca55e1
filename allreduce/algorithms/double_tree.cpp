// SPDX-License-Identifier: Apache-2.0
#include "allreduce/algorithms.hpp"
#include "allreduce/builder.hpp"

namespace allreduce {

Schedule double_tree(const Shape& shape) {
  const int ranks = shape.ranks;
  Builder build("double_tree", shape, 2 * shape.pieces);
  // Binary tree over places 1 to n - 1 in their natural order, below place 0: a place's lowest bit says how high it
  // stands, its parent is the next higher place on either side, and odd places are leaves.
  const auto parent = [&](int place) {
    const int bit = place & -place;
    const int between = (place ^ bit) | (bit << 1);
    return between < ranks ? between : place ^ bit;
  };
  for (int chunk = 0; chunk < 2 * shape.pieces; ++chunk) {
    // The second tree is the first one mirrored (shifted by one where mirroring would keep odd ranks odd), so that the
    // inner ranks of one are leaves of the other.
    const auto rank = [&](int place) {
      return chunk % 2 == 0 ? place : ranks % 2 == 0 ? ranks - 1 - place : (place + 1) % ranks;
    };
    int top = 1;
    for (int bit = 1; bit < ranks; bit *= 2) {
      for (int place = bit; place < ranks; place += 2 * bit) {
        build.reduce(build.at(rank(place), chunk), rank(parent(place)));
      }
      top = bit;
    }
    for (int bit = top; bit >= 1; bit /= 2) {
      for (int place = bit; place < ranks; place += 2 * bit) {
        build.copy(build.at(rank(parent(place)), chunk), rank(place));
      }
    }
  }
  return std::move(build).finish();
}

}  // namespace allreduce
