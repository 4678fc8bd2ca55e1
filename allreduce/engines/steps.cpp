// SPDX-License-Identifier: Apache-2.0
#include "allreduce/engines/steps.hpp"

#include "allreduce/fuse.hpp"

namespace allreduce {

std::vector<Step> steps_of(const Schedule& schedule, const Verdict& verdict, Direction direction) {
  std::vector<Step> steps;
  const std::vector<int> pieces = first_pieces(schedule);
  for (const Op& op : schedule.ops) {
    const Rank lane = direction == Direction::push && op.kind == Kind::copy ? op.from.rank : op.to.rank;
    steps.push_back({op.kind, op.from, op.to, pieces[steps.size()], op.to.count, lane, false, op.after});
  }
  for (const OpId id : verdict.completing) steps[id].divides = true;
  return steps;
}

namespace {

// A move as steps of its rank's lane: what is read first is there or is copied there, the rest is reduced into it, and
// the sum is copied on.
void add_move(std::vector<Step>& steps, const Move& move, Rank lane, std::vector<OpId> after) {
  const auto add = [&](Kind kind, const Chunk& from, const Chunk& to, bool divides) {
    steps.push_back({kind, from, to, move.first, move.count, lane, divides, std::move(after)});
    after.clear();  // the lane keeps the order of the others
  };
  const Chunk& sum = move.to.front();
  if (move.from.front() != sum) add(Kind::copy, move.from.front(), sum, false);
  for (std::size_t i = 1; i < move.from.size(); ++i) {
    add(Kind::reduce, move.from[i], sum, move.divides && i + 1 == move.from.size());
  }
  for (std::size_t i = 1; i < move.to.size(); ++i) add(Kind::copy, sum, move.to[i], false);
}

}  // namespace

std::vector<Step> fused_steps_of(const Schedule& schedule, const Verdict& verdict) {
  const auto moves = fuse(schedule, verdict);
  std::vector<Step> steps;
  std::vector<std::vector<OpId>> last(moves.size());  // step of each issued move of a rank
  const auto may_go = [&](const Move& move) {
    for (const auto& [rank, count] : move.after) {
      if (last[rank].size() < static_cast<std::size_t>(count)) return false;
    }
    return true;
  };
  for (bool any = true; any;) {
    any = false;
    for (std::size_t rank = 0; rank < moves.size(); ++rank) {
      if (last[rank].size() == moves[rank].size()) continue;
      const Move& move = moves[rank][last[rank].size()];
      if (!may_go(move)) continue;
      std::vector<OpId> after;
      for (const auto& [other, count] : move.after) after.push_back(last[other][count - 1]);
      add_move(steps, move, static_cast<Rank>(rank), std::move(after));
      last[rank].push_back(static_cast<OpId>(steps.size()) - 1);
      any = true;
    }
  }
  return steps;
}

}  // namespace allreduce
