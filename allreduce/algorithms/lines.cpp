// SPDX-License-Identifier: Apache-2.0
#include "allreduce/algorithms/lines.hpp"

#include <algorithm>
#include <numeric>

#include "allreduce/algorithms.hpp"
#include "harness/error.hpp"

namespace allreduce {

int group_of(const Shape& shape) {
  if (shape.group > 0) return std::min(shape.group, shape.ranks);
  int size = 1;
  while (size * size < shape.ranks || shape.ranks % size != 0) ++size;
  return size;
}

Line line_of(const Shape& shape) {
  Line line(std::max(0, shape.ranks));
  std::iota(line.begin(), line.end(), 0);
  return line;
}

std::vector<Line> groups_of(const Shape& shape) {
  if (shape.ranks < 1) throw harness::Error("a schedule needs at least one rank");
  const int size = group_of(shape);
  std::vector<Line> groups;
  for (Rank rank = 0; rank < shape.ranks; ++rank) {
    if (rank % size == 0) groups.emplace_back();
    groups.back().push_back(rank);
  }
  return groups;
}

void reduce_around(Builder& build, const Line& line, int last, int chunk) {
  const int size = static_cast<int>(line.size());
  for (int hop = 1; hop < size; ++hop) {
    build.reduce(build.at(line[(last + hop) % size], chunk), line[(last + hop + 1) % size]);
  }
}

void copy_around(Builder& build, const Line& line, int first, int chunk) {
  const int size = static_cast<int>(line.size());
  for (int hop = 0; hop + 1 < size; ++hop) {
    build.copy(build.at(line[(first + hop) % size], chunk), line[(first + hop + 1) % size]);
  }
}

}  // namespace allreduce
