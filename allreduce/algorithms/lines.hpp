// SPDX-License-Identifier: Apache-2.0
// Ranks in lines, for the algorithms that are made of rings over some of the ranks: a line is a list of ranks, each of
// which sends to the next and the last to the first.
#pragma once

#include <vector>

#include "allreduce/builder.hpp"

namespace allreduce {

using Line = std::vector<Rank>;

// All ranks in their order.
Line line_of(const Shape& shape);

// The groups of a shape, whose ranks follow each other; the last one is smaller where they do not come out even.
// Without a size asked for it is the smallest divisor of the number of ranks that is at least its square root.
std::vector<Line> groups_of(const Shape& shape);

// A chunk once around a line, each rank adding its own: ends, added up, at the rank with the index `last`.
void reduce_around(Builder& build, const Line& line, int last, int chunk);
// A chunk once around a line, from the rank with the index `first` to all.
void copy_around(Builder& build, const Line& line, int first, int chunk);

}  // namespace allreduce
