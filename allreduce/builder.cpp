// SPDX-License-Identifier: Apache-2.0
#include "allreduce/builder.hpp"

#include <algorithm>
#include <deque>

#include "harness/error.hpp"

namespace allreduce {

Builder::Builder(std::string name, const Shape& shape, int chunks, Collective collective) {
  if (shape.ranks < 1 || shape.pieces < 1 || chunks < 1) {
    throw harness::Error("a schedule needs at least one rank, one piece and one chunk");
  }
  if (shape.root < 0 || shape.root >= shape.ranks) {
    throw harness::Error("there is no root " + std::to_string(shape.root) + " among " + std::to_string(shape.ranks) +
                         " ranks");
  }
  schedule_.name = std::move(name);
  schedule_.shape = shape;
  schedule_.chunks = chunks;
  schedule_.collective = collective;
  if (has_slices(schedule_.collective) && chunks % shape.ranks != 0) {
    throw harness::Error(schedule_.name + ": " + std::to_string(chunks) + " chunks are no slice for each of " +
                         std::to_string(shape.ranks) + " ranks");
  }
  ranks_.assign(shape.ranks, Intervals<Access>(chunks, {Own::nowhere}));
  for (Rank rank = 0; rank < shape.ranks; ++rank) {
    const auto [first, count] = schedule_.brings(rank);
    ranks_[rank].assign(first, count, {shape.placement == Placement::in_place ? Own::data : Own::input});
  }
}

Chunk Builder::at(Rank rank, int first, int count) const {
  if (rank < 0 || rank >= schedule_.shape.ranks || first < 0 || count < 1 || first > schedule_.chunks - count) {
    throw harness::Error(schedule_.name + ": there is no chunk " + std::to_string(first) + " of " +
                         std::to_string(count) + " pieces on rank " + std::to_string(rank));
  }
  return {rank, Space::data, first, count};
}

Builder::Own Builder::own(const Chunk& chunk) {
  bool first_part = true;
  Own found = Own::data;
  ranks_[chunk.rank].visit(chunk.first, chunk.count, [&](int, int, Access& access) {
    if (!first_part && access.own != found) {
      throw harness::Error(schedule_.name + ": a chunk is half input, half result: use smaller ones");
    }
    first_part = false;
    found = access.own;
  });
  return found;
}

Chunk Builder::source(const Chunk& chunk) {
  const Own stands = own(chunk);
  if (stands == Own::nowhere) {
    throw harness::Error(schedule_.name + ": rank " + std::to_string(chunk.rank) + " has nothing in chunk " +
                         std::to_string(chunk.first) + " yet");
  }
  Chunk found = chunk;
  found.space = stands == Own::data ? Space::data : Space::input;
  return found;
}

void Builder::read(OpId id, const Chunk& chunk) {
  if (chunk.space == Space::scratch) {
    after_.push_back(waits_[chunk.first].writer);
    waits_[chunk.first].reader = id;
  } else if (chunk.space == Space::data) {
    ranks_[chunk.rank].visit(chunk.first, chunk.count, [&](int, int, Access& access) {
      if (access.writer >= 0) after_.push_back(access.writer);
      access.readers = readers_.push(access.readers, id);
    });
  }
}

void Builder::write(OpId id, const Chunk& chunk, Own own) {
  if (chunk.space == Space::scratch) {
    OpId& writer = waits_[chunk.first].writer;
    if (writer >= 0) after_.push_back(writer);
    writer = id;
    return;
  }
  ranks_[chunk.rank].visit(chunk.first, chunk.count, [&](int, int, Access& access) {
    if (access.writer >= 0) after_.push_back(access.writer);
    readers_.visit(access.readers, [&](OpId reader) { after_.push_back(reader); });
  });
  ranks_[chunk.rank].assign(chunk.first, chunk.count, {own, id});
}

void Builder::append(Kind kind, const Chunk& from, const Chunk& to, Own own) {
  const auto id = static_cast<OpId>(schedule_.ops.size());
  after_.clear();
  read(id, from);
  write(id, to, own);
  std::sort(after_.begin(), after_.end());
  after_.erase(std::unique(after_.begin(), after_.end()), after_.end());
  schedule_.ops.push_back({kind, from, to, after_, 0});
}

Rank Builder::copy(const Chunk& from, Rank to) {
  const Chunk target = at(to, from.first, from.count);
  if (to == from.rank) return to;
  append(Kind::copy, source(from), target, Own::data);
  return to;
}

Rank Builder::reduce(const Chunk& from, Rank into) {
  add(fetch(from, into));
  return into;
}

Chunk Builder::fetch(const Chunk& from, Rank to) {
  const Chunk own_chunk = at(to, from.first, from.count);
  if (to == from.rank) throw harness::Error(schedule_.name + ": a rank cannot reduce its own chunk into itself");
  source(own_chunk);                   // throws where there is none to add to
  if (own(own_chunk) == Own::input) {  // data is free: no scratch
    append(Kind::copy, source(from), own_chunk, Own::input_beside_fetched);
    return own_chunk;
  }
  const Chunk waiting{to, Space::scratch, static_cast<int>(waits_.size()), from.count};
  waits_.push_back({from.first});
  schedule_.scratch_width = std::max(schedule_.scratch_width, from.count);
  append(Kind::copy, source(from), waiting, Own::data);
  return waiting;
}

void Builder::add(const Chunk& fetched) {
  if (fetched.space == Space::data) {
    append(Kind::reduce, source(fetched), fetched, Own::data);
    return;
  }
  const Chunk target = at(fetched.rank, waits_[fetched.first].piece, fetched.count);
  if (own(target) != Own::data) throw harness::Error(schedule_.name + ": what was fetched first is added first");
  add_once(fetched, target, Own::data);
}

void Builder::add(const Chunk& fetched, const Chunk& waiting) { add_once(fetched, waiting, Own::input_beside_fetched); }

void Builder::add_once(const Chunk& fetched, const Chunk& target, Own own) {
  if (fetched.space != Space::scratch || waits_[fetched.first].reader >= 0) {
    throw harness::Error(schedule_.name + ": what was fetched is added once, and to what was fetched before it");
  }
  append(Kind::reduce, fetched, target, own);
}

// Goes through the graph level by level; gives the ops in that order. A copy into scratch takes the place that has been
// free for longest, and then follows the reduce that freed it, which lies on an earlier level: so reuse never makes the
// schedule longer.
std::vector<OpId> Builder::place_and_level() {
  auto& ops = schedule_.ops;
  const auto count = static_cast<OpId>(ops.size());
  // Who follows op i: followers[begin[i]] to followers[begin[i + 1]].
  std::vector<int> begin(count + 2);
  for (const Op& op : ops) {
    for (const OpId before : op.after) ++begin[before + 2];
  }
  for (OpId id = 0; id < count; ++id) begin[id + 2] += begin[id + 1];
  std::vector<OpId> followers(begin[count + 1]);
  std::vector<int> missing(count);
  std::vector<OpId> ready;
  for (OpId id = 0; id < count; ++id) {
    missing[id] = static_cast<int>(ops[id].after.size());
    if (missing[id] == 0) ready.push_back(id);
    for (const OpId before : ops[id].after) followers[begin[before + 1]++] = id;
  }

  struct Place {
    int number;
    OpId freed_by;
  };
  std::vector<std::deque<Place>> free(schedule_.shape.ranks);
  schedule_.places.assign(schedule_.shape.ranks, 0);
  std::vector<OpId> order;
  order.reserve(count);
  std::vector<OpId> next;
  for (int level = 0; !ready.empty(); ++level) {
    next.clear();
    for (const OpId id : ready) {
      Op& op = ops[id];
      op.level = level;
      order.push_back(id);
      if (op.kind == Kind::copy && op.to.space == Space::scratch) {
        auto& places = free[op.to.rank];
        int& place = waits_[op.to.first].place;
        if (places.empty()) {
          place = schedule_.places[op.to.rank]++;
        } else {
          place = places.front().number;
          op.after.push_back(places.front().freed_by);
          places.pop_front();
        }
      }
      for (int at = begin[id]; at < begin[id + 1]; ++at) {
        if (--missing[followers[at]] == 0) next.push_back(followers[at]);
      }
    }
    for (const OpId id : ready) {
      const Chunk& from = ops[id].from;
      if (from.space == Space::scratch) free[from.rank].push_back({waits_[from.first].place, id});
    }
    std::sort(next.begin(), next.end());
    std::swap(ready, next);
  }
  return order;
}

void Builder::sort(const std::vector<OpId>& order) {
  auto& ops = schedule_.ops;
  std::vector<OpId> position(ops.size());
  for (std::size_t at = 0; at < ops.size(); ++at) position[order[at]] = static_cast<OpId>(at);
  std::vector<Op> sorted;
  sorted.reserve(ops.size());
  for (const OpId id : order) {
    sorted.push_back(std::move(ops[id]));
    Op& op = sorted.back();
    for (OpId& before : op.after) before = position[before];
    std::sort(op.after.begin(), op.after.end());
    for (Chunk* chunk : {&op.from, &op.to}) {
      if (chunk->space == Space::scratch) chunk->first = waits_[chunk->first].place * schedule_.scratch_width;
    }
  }
  ops = std::move(sorted);
}

Schedule Builder::finish() && {
  if (schedule_.shape.placement == Placement::out_of_place) {
    for (Rank rank = 0; rank < schedule_.shape.ranks; ++rank) {
      std::vector<Chunk> untouched;
      const auto [from, owed] = schedule_.owes(rank);
      ranks_[rank].visit(from, owed, [&](int first, int count, Access& access) {
        if (access.own == Own::input) untouched.push_back({rank, Space::input, first, count});
      });
      for (const Chunk& chunk : untouched) append(Kind::copy, chunk, at(rank, chunk.first, chunk.count), Own::data);
    }
  }
  sort(place_and_level());
  return std::move(schedule_);
}

}  // namespace allreduce
