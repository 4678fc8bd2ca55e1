// SPDX-License-Identifier: Apache-2.0
#include "allreduce/algorithms.hpp"
#include "allreduce/algorithms/folding.hpp"
#include "allreduce/builder.hpp"

namespace allreduce {

Schedule recursive_doubling(const Shape& shape) {
  Builder build("recursive_doubling", shape, shape.pieces);
  const Folding fold(shape.ranks);
  for (int chunk = 0; chunk < shape.pieces; ++chunk) {
    for (const auto& [stays, leaves] : fold.pairs) build.reduce(build.at(leaves, chunk), stays);
    for (int distance = 1; distance < fold.size(); distance *= 2) {
      std::vector<Chunk> fetched;
      for (int i = 0; i < fold.size(); ++i) {
        fetched.push_back(build.fetch(build.at(fold.core[i ^ distance], chunk), fold.core[i]));
      }
      for (const Chunk& partners : fetched) build.add(partners);
    }
    for (const auto& [stays, leaves] : fold.pairs) build.copy(build.at(stays, chunk), leaves);
  }
  return std::move(build).finish();
}

}  // namespace allreduce
