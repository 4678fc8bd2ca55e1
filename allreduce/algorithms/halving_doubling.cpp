// SPDX-License-Identifier: Apache-2.0
#include "allreduce/algorithms.hpp"
#include "allreduce/algorithms/folding.hpp"
#include "allreduce/builder.hpp"

namespace allreduce {

Schedule halving_doubling(const Shape& shape) {
  const Folding fold(shape.ranks);
  const int size = fold.size();
  Builder build("halving_doubling", shape, size * shape.pieces);
  for (int piece = 0; piece < shape.pieces; ++piece) {
    const int begin = piece * size;
    for (const auto& [stays, leaves] : fold.pairs) {  // each adds up one half
      build.reduce(build.at(leaves, begin, size / 2), stays);
      build.reduce(build.at(stays, begin + size / 2, size / 2), leaves);
      build.copy(build.at(leaves, begin + size / 2, size / 2), stays);
    }
    std::vector<int> first(size, begin);  // where begins what a rank still adds up
    for (int distance = 1, half = size / 2; distance < size; distance *= 2, half /= 2) {
      for (int low = 0; low < size; ++low) {
        if (low & distance) continue;
        const int high = low + distance;
        build.reduce(build.at(fold.core[high], first[low], half), fold.core[low]);
        build.reduce(build.at(fold.core[low], first[low] + half, half), fold.core[high]);
        first[high] += half;
      }
    }
    for (int distance = size / 2, half = 1; distance >= 1; distance /= 2, half *= 2) {
      for (int low = 0; low < size; ++low) {
        if (low & distance) continue;
        const int high = low + distance;
        build.copy(build.at(fold.core[low], first[low], half), fold.core[high]);
        build.copy(build.at(fold.core[high], first[high], half), fold.core[low]);
        first[high] = first[low];
      }
    }
    for (const auto& [stays, leaves] : fold.pairs) build.copy(build.at(stays, begin, size), leaves);
  }
  return std::move(build).finish();
}

}  // namespace allreduce
