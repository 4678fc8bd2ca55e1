// SPDX-License-Identifier: Apache-2.0
#include "allreduce/algorithms.hpp"
#include "allreduce/algorithms/lines.hpp"

namespace allreduce {

Schedule leader(const Shape& shape) {
  const std::vector<Line> groups = groups_of(shape);
  const int depth = static_cast<int>(groups.size());
  Line leaders;
  for (const Line& group : groups) leaders.push_back(group[0]);
  Builder build("leader", shape, depth * shape.pieces);
  for (int chunk = 0; chunk < depth * shape.pieces; ++chunk) {
    for (const Line& group : groups) {
      for (const Rank member : group) {
        if (member != group[0]) build.reduce(build.at(member, chunk), group[0]);
      }
    }
    reduce_around(build, leaders, chunk % depth, chunk);
    copy_around(build, leaders, chunk % depth, chunk);
    for (const Line& group : groups) {
      for (const Rank member : group) build.copy(build.at(group[0], chunk), member);
    }
  }
  return std::move(build).finish();
}

}  // namespace allreduce
