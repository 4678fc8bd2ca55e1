// SPDX-License-Identifier: Apache-2.0
#include "allreduce/schedule.hpp"

namespace allreduce {

namespace {

std::string describe(const Chunk& chunk) {
  static constexpr const char* spaces[] = {"data", "scratch", "input"};
  return std::string(spaces[static_cast<int>(chunk.space)]) + " " + std::to_string(chunk.first) + "+" +
         std::to_string(chunk.count) + " of rank " + std::to_string(chunk.rank);
}

}  // namespace

Schedule::Run Schedule::brings(Rank rank) const {
  if (collective == Collective::broadcast && rank != shape.root) return {};
  if (collective != Collective::all_gather) return {0, chunks};
  return {chunks / shape.ranks * rank, chunks / shape.ranks};
}

Schedule::Run Schedule::owes(Rank rank) const {
  if (collective == Collective::reduce && rank != shape.root) return {};
  if (collective != Collective::reduce_scatter) return {0, chunks};
  return {chunks / shape.ranks * rank, chunks / shape.ranks};
}

std::vector<int> first_pieces(const Schedule& schedule) {
  std::vector<std::vector<int>> waiting;  // by rank and place: the first piece of what was last put there
  for (const int places : schedule.places) waiting.emplace_back(places);
  std::vector<int> pieces;
  for (const Op& op : schedule.ops) {
    const auto place = [&](const Chunk& chunk) -> int& {
      return waiting[chunk.rank][chunk.first / schedule.scratch_width];
    };
    pieces.push_back(op.from.space == Space::scratch ? place(op.from) : op.from.first);
    if (op.to.space == Space::scratch) place(op.to) = pieces.back();
  }
  return pieces;
}

std::string describe(const Schedule& schedule, OpId id) {
  const Op& op = schedule.ops.at(id);
  return "op " + std::to_string(id) + " (" + (op.kind == Kind::copy ? "copy " : "reduce ") + describe(op.from) +
         (op.kind == Kind::copy ? " to " : " into ") + describe(op.to) + ")";
}

}  // namespace allreduce
