// SPDX-License-Identifier: Apache-2.0
#include "allreduce/fuse.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

namespace allreduce {

namespace {

// An op on its way to become a move: it takes over the inputs, outputs and order of the ops that it swallows, and stays
// where it was in the schedule. A swallowed op X moves to the place of its swallower S. That is right when all that
// must come after X is on a later level than S (if S is later than X), or all that must come before X is on an earlier
// level than S (if S is earlier): the order of the list then stays a topological order of the whole.
class Fusion {
 public:
  Fusion(const Schedule& schedule, const Verdict& verdict) : schedule_(schedule) {
    for (const Op& op : schedule.ops) {
      steps_.push_back({{op.from}, {op.to}, {op.after.begin(), op.after.end()}});
      if (op.kind == Kind::reduce) steps_.back().from.insert(steps_.back().from.begin(), op.to);
    }
    for (const OpId id : verdict.completing) steps_[id].divides = true;
    followers_.resize(steps_.size());
    for (OpId id = 0; id < size(); ++id) {
      for (const OpId before : steps_[id].after) followers_[before].insert(id);
    }
  }

  std::vector<std::vector<Move>> run() {
    for (OpId id = 0; id < size(); ++id) {
      if (schedule_.ops[id].kind != Kind::reduce) continue;
      swallow_arrival(id);
      swallow_earlier_sum(id);
    }
    swallow_departures();
    return moves();
  }

 private:
  struct Step {
    std::vector<Chunk> from, to;
    std::set<OpId> after;
    bool divides = false;
    bool alive = true;
  };

  OpId size() const { return static_cast<OpId>(steps_.size()); }
  Rank rank_of(OpId id) const { return schedule_.ops[id].to.rank; }  // a move is done where its op wrote
  int level_of(OpId id) const { return schedule_.ops[id].level; }

  // Whether all that waits for `swallowed` can as well wait for the later `by`.
  bool may_be_later(OpId swallowed, OpId by) const {
    return std::all_of(followers_[swallowed].begin(), followers_[swallowed].end(),
                       [&](OpId follower) { return follower == by || level_of(follower) > level_of(by); });
  }

  // The op before `id` that wrote `chunk`, on the same rank.
  std::optional<OpId> writer_before(OpId id, const Chunk& chunk) const {
    for (const OpId before : steps_[id].after) {
      if (rank_of(before) == rank_of(id) && steps_[before].to.front() == chunk) return before;
    }
    return std::nullopt;
  }

  void swallow(OpId swallowed, OpId by) {
    steps_[by].after.insert(steps_[swallowed].after.begin(), steps_[swallowed].after.end());
    for (const OpId before : steps_[swallowed].after) {
      followers_[before].erase(swallowed);
      followers_[before].insert(by);
    }
    for (const OpId follower : followers_[swallowed]) {
      steps_[follower].after.erase(swallowed);
      steps_[follower].after.insert(by);
      followers_[by].insert(follower);
    }
    for (const OpId id : {swallowed, by}) {
      steps_[by].after.erase(id);
      followers_[by].erase(id);
    }
    steps_[swallowed] = {.from = {}, .to = {}, .after = {}, .divides = false, .alive = false};
    followers_[swallowed].clear();
  }

  // copy(peer's chunk -> scratch), reduce(scratch -> own chunk): the reduce reads the peer's chunk itself.
  void swallow_arrival(OpId id) {
    const Chunk place = schedule_.ops[id].from;
    if (place.space != Space::scratch) return;
    const auto copy = writer_before(id, place);
    if (!copy || schedule_.ops[*copy].kind != Kind::copy || !may_be_later(*copy, id)) return;
    for (const OpId follower : followers_[*copy]) {
      const Chunk& read = steps_[follower].from.back();
      if (follower != id && read.space == Space::scratch && read.rank == place.rank && read.first == place.first)
        return;
    }
    steps_[id].from.back() = steps_[*copy].from.front();
    swallow(*copy, id);
  }

  // Two reduces into one chunk, or a copy and a reduce, and nobody reads it in between: one pass.
  void swallow_earlier_sum(OpId id) {
    const auto earlier = writer_before(id, schedule_.ops[id].to);
    if (!earlier || !may_be_later(*earlier, id)) return;
    auto& from = steps_[id].from;
    from.erase(from.begin());
    from.insert(from.begin(), steps_[*earlier].from.begin(), steps_[*earlier].from.end());
    swallow(*earlier, id);
  }

  // reduce(... -> own chunk), copy(own chunk -> peer's): the reduce writes the peer's chunk too. That takes work from
  // the peer, so it is done only where no rank is burdened more than others.
  void swallow_departures() {
    std::map<OpId, std::vector<OpId>> departures;
    std::vector<std::size_t> burden(schedule_.shape.ranks);
    for (OpId id = 0; id < size(); ++id) {
      const Op& op = schedule_.ops[id];
      if (!steps_[id].alive || op.kind != Kind::copy || op.to.space != Space::data) continue;
      for (const OpId sum : steps_[id].after) {
        if (schedule_.ops[sum].kind != Kind::reduce || steps_[sum].to.front() != op.from) continue;
        const bool in_order = std::all_of(steps_[id].after.begin(), steps_[id].after.end(), [&](OpId before) {
          return before == sum || level_of(before) < level_of(sum);
        });
        if (!in_order) continue;
        departures[sum].push_back(id);
        ++burden[rank_of(sum)];
      }
    }
    const auto [least, most] = std::minmax_element(burden.begin(), burden.end());
    const bool even = *least == *most;
    for (const auto& [sum, copies] : departures) {
      if (!even && copies.size() > 1) continue;
      for (const OpId copy : copies) {
        steps_[sum].to.push_back(schedule_.ops[copy].to);
        swallow(copy, sum);
      }
    }
  }

  std::vector<std::vector<Move>> moves() const {
    std::vector<std::vector<Move>> all(schedule_.shape.ranks);
    const std::vector<int> pieces = first_pieces(schedule_);
    std::vector<int> position(steps_.size());      // among its rank's moves, from 1
    std::map<std::pair<Rank, Rank>, int> covered;  // (who waits, for whom) -> up to which move
    for (OpId id = 0; id < size(); ++id) {
      const Step& step = steps_[id];
      if (!step.alive) continue;
      const Rank rank = rank_of(id);
      const Op& op = schedule_.ops[id];
      Move move{pieces[id], op.to.count, step.from, step.to, step.divides, {}};
      std::map<Rank, int> latest;
      for (const OpId before : step.after) {
        if (rank_of(before) != rank) latest[rank_of(before)] = std::max(latest[rank_of(before)], position[before]);
      }
      for (const auto& [other, moves] : latest) {
        int& known = covered[{rank, other}];
        if (known >= moves) continue;
        known = moves;
        move.after.push_back({other, moves});
      }
      all[rank].push_back(std::move(move));
      position[id] = static_cast<int>(all[rank].size());
    }
    return all;
  }

  const Schedule& schedule_;
  std::vector<Step> steps_;
  std::vector<std::set<OpId>> followers_;
};

}  // namespace

std::vector<std::vector<Move>> fuse(const Schedule& schedule, const Verdict& verdict) {
  return Fusion(schedule, verdict).run();
}

}  // namespace allreduce
