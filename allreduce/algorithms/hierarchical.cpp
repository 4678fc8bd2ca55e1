// SPDX-License-Identifier: Apache-2.0
#include "allreduce/algorithms.hpp"
#include "allreduce/algorithms/lines.hpp"

namespace allreduce {

Schedule hierarchical(const Shape& shape) {
  const std::vector<Line> groups = groups_of(shape);
  const int width = static_cast<int>(groups[0].size());
  const int depth = static_cast<int>(groups.size());
  Builder build("hierarchical", shape, width * depth * shape.pieces);
  for (int chunk = 0; chunk < width * depth * shape.pieces; ++chunk) {
    // In a smaller group some ranks own more than one slice.
    const auto owner = [&](const Line& group) { return chunk % width % static_cast<int>(group.size()); };
    Line owners;
    for (const Line& group : groups) {
      reduce_around(build, group, owner(group), chunk);
      owners.push_back(group[owner(group)]);
    }
    const int last = chunk / width % depth;
    reduce_around(build, owners, last, chunk);
    copy_around(build, owners, last, chunk);
    for (const Line& group : groups) copy_around(build, group, owner(group), chunk);
  }
  return std::move(build).finish();
}

}  // namespace allreduce
