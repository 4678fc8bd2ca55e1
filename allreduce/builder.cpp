// SPDX-License-Identifier: Apache-2.0
#include "allreduce/builder.hpp"

#include <algorithm>
#include <deque>
#include <numeric>
#include <set>

#include "harness/error.hpp"

namespace allreduce {

Builder::Builder(std::string name, const Shape& shape, int chunks) {
  if (shape.ranks < 1 || shape.pieces < 1 || chunks < 1) {
    throw harness::Error("a schedule needs at least one rank, one piece and one chunk");
  }
  schedule_.name = std::move(name);
  schedule_.shape = shape;
  schedule_.chunks = chunks;
  Access untouched;
  untouched.written = shape.placement == Placement::in_place;
  ranks_.assign(shape.ranks, Intervals<Access>(chunks, untouched));
}

Chunk Builder::at(Rank rank, int first, int count) const {
  if (rank < 0 || rank >= schedule_.shape.ranks || first < 0 || count < 1 || first + count > schedule_.chunks) {
    throw harness::Error(schedule_.name + ": there is no chunk " + std::to_string(first) + " of " +
                         std::to_string(count) + " pieces on rank " + std::to_string(rank));
  }
  return {rank, Space::data, first, count};
}

// Where the value of a chunk stands now: in the input as long as nothing was written, else in data.
Chunk Builder::source(const Chunk& chunk) {
  bool any = false;
  bool all = true;
  ranks_[chunk.rank].visit(chunk.first, chunk.count, [&](int, int, Access& access) {
    any = any || access.written;
    all = all && access.written;
  });
  if (any != all) throw harness::Error(schedule_.name + ": a chunk is half input, half result: use smaller ones");
  Chunk found = chunk;
  found.space = all ? Space::data : Space::input;
  return found;
}

void Builder::depend(Op& op, const Chunk& chunk, bool writes) {
  if (chunk.space != Space::data) return;
  const auto id = static_cast<OpId>(schedule_.ops.size());
  ranks_[chunk.rank].visit(chunk.first, chunk.count, [&](int, int, Access& access) {
    if (access.writer >= 0) op.after.push_back(access.writer);
    if (writes) {
      op.after.insert(op.after.end(), access.readers.begin(), access.readers.end());
      access = {true, id, {}};
    } else {
      access.readers.push_back(id);
    }
  });
}

OpId Builder::add(Kind kind, const Chunk& from, const Chunk& to) {
  Op op{kind, from, to, {}, 0};
  const auto id = static_cast<OpId>(schedule_.ops.size());
  depend(op, from, false);
  depend(op, to, true);
  std::sort(op.after.begin(), op.after.end());
  op.after.erase(std::unique(op.after.begin(), op.after.end()), op.after.end());
  std::erase(op.after, id);
  schedule_.ops.push_back(std::move(op));
  consumer_.push_back(-1);
  return id;
}

Rank Builder::copy(const Chunk& from, Rank to) {
  const Chunk target = at(to, from.first, from.count);
  if (to != from.rank) add(Kind::copy, source(from), target);
  return to;
}

Rank Builder::reduce(const Chunk& from, Rank into) {
  const Chunk target = at(into, from.first, from.count);
  if (into == from.rank) throw harness::Error(schedule_.name + ": a rank cannot reduce its own chunk into itself");
  const Chunk own = source(target);
  if (own.space == Space::input) {  // what arrives is the first to be written: no scratch
    add(Kind::copy, source(from), target);
    add(Kind::reduce, own, target);
    return into;
  }
  // The place is chosen at the end; until then its number is the copy's own.
  Chunk place{into, Space::scratch, 0, from.count};
  const OpId arrival = add(Kind::copy, source(from), place);
  const OpId sum = add(Kind::reduce, place, target);
  auto& after = schedule_.ops[sum].after;
  after.insert(std::upper_bound(after.begin(), after.end(), arrival), arrival);
  consumer_[arrival] = sum;
  schedule_.scratch_width = std::max(schedule_.scratch_width, from.count);
  return into;
}

// Goes through the graph level by level. A copy into scratch takes the place that has been free for longest, and then
// follows the reduce that freed it, which lies on an earlier level: so reuse never makes the schedule longer.
void Builder::place_and_level() {
  auto& ops = schedule_.ops;
  const auto count = static_cast<OpId>(ops.size());
  std::vector<std::vector<OpId>> followers(count);
  std::vector<int> missing(count);
  for (OpId id = 0; id < count; ++id) {
    missing[id] = static_cast<int>(ops[id].after.size());
    for (const OpId before : ops[id].after) followers[before].push_back(id);
  }
  struct Place {
    int number;
    OpId freed_by;
  };
  std::vector<std::deque<Place>> free(schedule_.shape.ranks);
  schedule_.places.assign(schedule_.shape.ranks, 0);

  std::vector<OpId> order;
  std::vector<OpId> ready;
  for (OpId id = 0; id < count; ++id) {
    if (missing[id] == 0) ready.push_back(id);
  }
  for (int level = 0; !ready.empty(); ++level) {
    std::vector<OpId> next;
    std::vector<OpId> freed;
    for (const OpId id : ready) {
      Op& op = ops[id];
      op.level = level;
      order.push_back(id);
      if (const OpId reader = consumer_[id]; reader >= 0) {
        auto& places = free[op.to.rank];
        Place place{schedule_.places[op.to.rank], -1};
        if (places.empty()) {
          ++schedule_.places[op.to.rank];
        } else {
          place = places.front();
          places.pop_front();
          op.after.push_back(place.freed_by);
        }
        op.to.first = ops[reader].from.first = place.number * schedule_.scratch_width;
      }
      if (op.from.space == Space::scratch) freed.push_back(id);
      for (const OpId follower : followers[id]) {
        if (--missing[follower] == 0) next.push_back(follower);
      }
    }
    for (const OpId id : freed) {
      free[ops[id].from.rank].push_back({ops[id].from.first / schedule_.scratch_width, id});
    }
    std::sort(next.begin(), next.end());
    ready = std::move(next);
  }

  std::vector<OpId> position(count);
  for (OpId at = 0; at < count; ++at) position[order[at]] = at;
  std::vector<Op> sorted(count);
  for (OpId at = 0; at < count; ++at) {
    sorted[at] = std::move(ops[order[at]]);
    for (OpId& before : sorted[at].after) before = position[before];
    std::sort(sorted[at].after.begin(), sorted[at].after.end());
  }
  ops = std::move(sorted);
}

Schedule Builder::finish() && {
  if (schedule_.shape.placement == Placement::out_of_place) {
    for (Rank rank = 0; rank < schedule_.shape.ranks; ++rank) {
      std::vector<Chunk> untouched;
      ranks_[rank].visit(0, schedule_.chunks, [&](int first, int count, Access& access) {
        if (!access.written) untouched.push_back({rank, Space::input, first, count});
      });
      for (const Chunk& chunk : untouched) add(Kind::copy, chunk, at(rank, chunk.first, chunk.count));
    }
  }
  place_and_level();
  return std::move(schedule_);
}

}  // namespace allreduce
