// SPDX-License-Identifier: Apache-2.0
#include "allreduce/algorithms.hpp"
#include "allreduce/algorithms/lines.hpp"

namespace allreduce {

Schedule torus(const Shape& shape) {
  const std::vector<Line> rows = groups_of({shape.ranks});
  const int width = static_cast<int>(rows[0].size());
  std::vector<Line> columns(width);
  for (Rank rank = 0; rank < shape.ranks; ++rank) columns[rank % width].push_back(rank);
  const int chunks = 2 * shape.ranks * shape.pieces;
  Builder build("torus", shape, chunks);
  for (int chunk = 0; chunk < chunks; ++chunk) {
    // One half goes along the rows first, the other along the columns, so that all links are busy all the time.
    const std::vector<Line>& first = chunk % 2 == 0 ? rows : columns;
    const std::vector<Line>& second = chunk % 2 == 0 ? columns : rows;
    const int along = chunk / 2 % static_cast<int>(second.size());
    const int across = chunk / 2 / static_cast<int>(second.size()) % static_cast<int>(first.size());
    for (const Line& line : first) reduce_around(build, line, along, chunk);
    reduce_around(build, second[along], across, chunk);
    copy_around(build, second[along], across, chunk);
    for (const Line& line : first) copy_around(build, line, along, chunk);
  }
  return std::move(build).finish();
}

}  // namespace allreduce
