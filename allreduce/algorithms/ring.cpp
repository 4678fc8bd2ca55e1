// SPDX-License-Identifier: Apache-2.0
#include "allreduce/algorithms.hpp"
#include "allreduce/builder.hpp"

namespace allreduce {

Schedule ring(const Shape& shape) {
  Builder build("ring", shape, shape.ranks * shape.pieces);
  const auto next = [&](Rank rank) { return (rank + 1) % shape.ranks; };
  for (int chunk = 0; chunk < shape.ranks * shape.pieces; ++chunk) {
    Rank holder = chunk % shape.ranks;
    for (int hop = 1; hop < shape.ranks; ++hop) holder = build.reduce(build.at(holder, chunk), next(holder));
    for (int hop = 1; hop < shape.ranks; ++hop) holder = build.copy(build.at(holder, chunk), next(holder));
  }
  return std::move(build).finish();
}

}  // namespace allreduce
