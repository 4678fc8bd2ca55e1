// SPDX-License-Identifier: Apache-2.0
#include "allreduce/verify.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "allreduce/intervals.hpp"

namespace allreduce {

namespace {

using Expression = int;  // index into Expressions; what a chunk holds
constexpr Expression nothing = -1;

// Sums as trees over the ranks' contributions. Equal trees have one number (addition commutes, also in floating point,
// but is not associative), and each knows whose contributions it holds as sorted, disjoint runs of ranks.
class Expressions {
 public:
  explicit Expressions(int ranks) {
    for (Rank rank = 0; rank < ranks; ++rank) members_.push_back({{rank, rank + 1}});
  }

  static Expression contribution(Rank rank) { return rank; }

  // Nothing when a contribution is in both.
  std::optional<Expression> add(Expression a, Expression b) {
    const auto key = std::minmax(a, b);
    if (const auto known = sums_.find(key); known != sums_.end()) return known->second;
    std::vector<std::pair<Rank, Rank>> runs;
    std::merge(members_[a].begin(), members_[a].end(), members_[b].begin(), members_[b].end(),
               std::back_inserter(runs));
    std::vector<std::pair<Rank, Rank>> joined;
    for (const auto& run : runs) {
      if (!joined.empty() && run.first < joined.back().second) return std::nullopt;
      if (!joined.empty() && run.first == joined.back().second) {
        joined.back().second = run.second;
      } else {
        joined.push_back(run);
      }
    }
    members_.push_back(std::move(joined));
    return sums_[key] = static_cast<Expression>(members_.size()) - 1;
  }

  bool complete(Expression a, int ranks) const {
    return members_[a].size() == 1 && members_[a][0] == std::pair<Rank, Rank>(0, ranks);
  }
  // The first rank whose contribution is missing.
  Rank missing(Expression a) const { return members_[a][0].first > 0 ? 0 : members_[a][0].second; }

 private:
  std::vector<std::vector<std::pair<Rank, Rank>>> members_;
  std::map<std::pair<Expression, Expression>, Expression> sums_;
};

// What is known of an interval of one space of one rank while the ops are gone through in order.
struct Cell {
  Expression value = nothing;
  int piece = 0;  // scratch: the piece of the vector that stands at the beginning of the interval
  OpId writer = -1;
  std::vector<OpId> readers;
};

class Verifier {
 public:
  explicit Verifier(const Schedule& schedule)
      : schedule_(schedule), ranks_(schedule.shape.ranks), expressions_(static_cast<int>(schedule.places.size())) {}

  Verdict operator()() {
    Verdict verdict;
    if (well_formed()) {
      make_cells();
      verdict.proved = all_ops(verdict) && result();
    }
    verdict.reason = reason_;
    return verdict;
  }

 private:
  bool wrong(const std::string& reason) {
    reason_ = schedule_.name + ": " + reason;
    return false;
  }
  bool wrong(OpId op, const std::string& reason) { return wrong(describe(schedule_, op) + " " + reason); }

  bool well_formed() {
    if (ranks_ < 1 || schedule_.chunks < 1 || schedule_.scratch_width < 1 ||
        static_cast<int>(schedule_.places.size()) != ranks_) {
      return wrong("ranks, chunks, scratch width and places do not describe a schedule");
    }
    for (const int places : schedule_.places) {
      if (places < 0 || places > std::numeric_limits<int>::max() / schedule_.scratch_width) {
        return wrong("cannot have " + std::to_string(places) + " scratch places of " +
                     std::to_string(schedule_.scratch_width) + " pieces");
      }
    }
    for (OpId id = 0; id < static_cast<OpId>(schedule_.ops.size()); ++id) {
      const Op& op = schedule_.ops[id];
      for (const Chunk* chunk : {&op.from, &op.to}) {
        if (chunk->rank < 0 || chunk->rank >= ranks_) return wrong(id, "names a rank that is not there");
        if (chunk->first < 0 || chunk->count < 1 || chunk->first > size(*chunk) - chunk->count) {
          return wrong(id, "names pieces that are not there");
        }
        if (chunk->space == Space::scratch &&
            chunk->first % schedule_.scratch_width + chunk->count > schedule_.scratch_width) {
          return wrong(id, "does not stay in one place of scratch");
        }
        if (chunk->space == Space::scratch && chunk->first % schedule_.scratch_width != 0) {
          return wrong(id, "does not begin where its place in scratch begins");
        }
      }
      if (op.from.count != op.to.count) return wrong(id, "has ends of different sizes");
      if (op.to.space == Space::input) return wrong(id, "writes to the input");
      if (op.kind == Kind::reduce && op.from.rank != op.to.rank) return wrong(id, "reduces across ranks");
      if (op.from.rank == op.to.rank && op.from.space == op.to.space && op.from.first < op.to.first + op.to.count &&
          op.to.first < op.from.first + op.from.count) {
        return wrong(id, "has ends that overlap");
      }
      for (const OpId before : op.after) {
        if (before < 0 || before >= static_cast<OpId>(schedule_.ops.size())) return wrong(id, "follows no op");
        if (before >= id || schedule_.ops[before].level >= op.level) {
          return wrong(id, "follows op " + std::to_string(before) + ", which is not on an earlier level: a cycle");
        }
      }
    }
    return true;
  }

  int size(const Chunk& chunk) const {
    if (chunk.space != Space::scratch) return schedule_.chunks;
    return schedule_.places[chunk.rank] * schedule_.scratch_width;
  }

  void make_cells() {
    const bool in_place = schedule_.shape.placement == Placement::in_place;
    for (Rank rank = 0; rank < ranks_; ++rank) {
      const Cell own{Expressions::contribution(rank), 0, -1, {}};
      data_.emplace_back(schedule_.chunks, in_place ? own : Cell{});
      scratch_.emplace_back(std::max(1, schedule_.places[rank] * schedule_.scratch_width), Cell{});
      input_.emplace_back(schedule_.chunks, in_place ? Cell{} : own);
    }
  }

  Intervals<Cell>& cells(const Chunk& chunk) {
    auto& space = chunk.space == Space::data ? data_ : chunk.space == Space::scratch ? scratch_ : input_;
    return space[chunk.rank];
  }

  // Whether `before` ends before `id` begins. Asked for direct dependencies almost always.
  bool ordered(OpId before, OpId id) const {
    const auto& direct = schedule_.ops[id].after;
    if (std::find(direct.begin(), direct.end(), before) != direct.end()) return true;
    std::vector<OpId> open(direct);
    std::vector<bool> seen(id, false);
    while (!open.empty()) {
      const OpId at = open.back();
      open.pop_back();
      if (at == before) return true;
      if (at < before || seen[at]) continue;
      seen[at] = true;
      open.insert(open.end(), schedule_.ops[at].after.begin(), schedule_.ops[at].after.end());
    }
    return false;
  }

  bool reads(OpId id, OpId writer) {
    if (writer < 0 || ordered(writer, id)) return true;
    return wrong(id, "reads what op " + std::to_string(writer) + " writes, unordered");
  }

  struct Part {
    int offset, count;
    Expression value;
    int piece;
  };

  // What stands in a chunk, by parts; nothing where a read is not allowed.
  std::optional<std::vector<Part>> read(OpId id, const Chunk& chunk, bool remember) {
    std::vector<Part> parts;
    bool good = true;
    cells(chunk).visit(chunk.first, chunk.count, [&](int first, int count, Cell& cell) {
      if (!good) return;
      if (cell.value == nothing) {
        good = wrong(id, "reads " + std::string(chunk.space == Space::scratch ? "scratch" : "a chunk") +
                             " that was never written");
        return;
      }
      good = reads(id, cell.writer);
      if (remember) cell.readers.push_back(id);
      const int piece = chunk.space == Space::scratch ? cell.piece : first;
      parts.push_back({first - chunk.first, count, cell.value, piece});
    });
    if (!good) return std::nullopt;
    return parts;
  }

  bool write(OpId id, const Chunk& chunk, int offset, int count, Expression value, int piece) {
    bool good = true;
    cells(chunk).visit(chunk.first + offset, count, [&](int first, int, Cell& cell) {
      if (!good) return;
      if (cell.writer >= 0 && !ordered(cell.writer, id)) {
        good = wrong(id, "and op " + std::to_string(cell.writer) + " write the same chunk, unordered");
      }
      for (const OpId reader : cell.readers) {
        if (good && reader != id && !ordered(reader, id)) {
          good = wrong(id, "writes what op " + std::to_string(reader) + " reads, unordered");
        }
      }
      cell = {value, piece + first - chunk.first - offset, id, {}};
    });
    return good;
  }

  bool all_ops(Verdict& verdict) {
    for (OpId id = 0; id < static_cast<OpId>(schedule_.ops.size()); ++id) {
      const Op& op = schedule_.ops[id];
      const auto from = read(id, op.from, true);
      if (!from) return false;
      bool completes = false;
      bool leaves_open = false;
      for (const Part& part : *from) {
        if (op.to.space == Space::data && part.piece != op.to.first + part.offset) {
          return wrong(id, "brings piece " + std::to_string(part.piece) + " to the place of piece " +
                               std::to_string(op.to.first + part.offset));
        }
        if (op.kind == Kind::copy) {
          if (!write(id, op.to, part.offset, part.count, part.value, part.piece)) return false;
          continue;
        }
        const auto own = read(id, {op.to.rank, op.to.space, op.to.first + part.offset, part.count}, false);
        if (!own) return false;
        for (const Part& target : *own) {
          if (target.piece != part.piece + target.offset) return wrong(id, "adds different pieces");
          const auto sum = expressions_.add(part.value, target.value);
          if (!sum) return wrong(id, "adds a contribution twice");
          (expressions_.complete(*sum, ranks_) ? completes : leaves_open) = true;
          if (!write(id, op.to, part.offset + target.offset, target.count, *sum, target.piece)) return false;
        }
      }
      if (completes && leaves_open) return wrong(id, "completes only some of its pieces");
      if (completes) verdict.completing.push_back(id);
    }
    return true;
  }

  // At the end: every contribution on every rank, by one and the same tree.
  bool result() {
    bool good = true;
    for (Rank rank = 0; rank < ranks_ && good; ++rank) {
      data_[rank].visit(0, schedule_.chunks, [&](int first, int count, Cell& cell) {
        if (!good) return;
        const std::string where = "rank " + std::to_string(rank) + " ends without ";
        if (cell.value == nothing) {
          good = wrong(where + "anything in chunk " + std::to_string(first));
        } else if (!expressions_.complete(cell.value, ranks_)) {
          good = wrong(where + "the contribution of rank " + std::to_string(expressions_.missing(cell.value)) +
                       " in chunk " + std::to_string(first));
        }
        if (!good || rank == 0) return;
        data_[0].visit(first, count, [&](int at, int, const Cell& first_rank) {
          if (first_rank.value != cell.value) {
            good = wrong("ranks 0 and " + std::to_string(rank) + " add chunk " + std::to_string(at) +
                         " in different orders");
          }
        });
      });
    }
    return good;
  }

  const Schedule& schedule_;
  const int ranks_;
  Expressions expressions_;
  std::vector<Intervals<Cell>> data_, scratch_, input_;
  std::string reason_;
};

}  // namespace

Verdict verify(const Schedule& schedule) { return Verifier(schedule)(); }

Cost cost(const Schedule& schedule) {
  const int ranks = schedule.shape.ranks;
  std::vector<double> sent(ranks), received(ranks), reduced(ranks);
  std::vector<int> crossings(schedule.ops.size());
  Cost total;
  for (std::size_t id = 0; id < schedule.ops.size(); ++id) {
    const Op& op = schedule.ops[id];
    const double share = static_cast<double>(op.to.count) / schedule.chunks;
    for (const OpId before : op.after) crossings[id] = std::max(crossings[id], crossings[before]);
    if (op.kind == Kind::reduce) {
      reduced[op.to.rank] += share;
    } else if (op.from.rank != op.to.rank) {
      sent[op.from.rank] += share;
      received[op.to.rank] += share;
      ++crossings[id];
    }
    total.steps = std::max(total.steps, crossings[id]);
  }
  total.sent = *std::max_element(sent.begin(), sent.end());
  total.received = *std::max_element(received.begin(), received.end());
  total.reduced = *std::max_element(reduced.begin(), reduced.end());
  total.least_sent = 2.0 * (ranks - 1) / ranks;
  while ((1LL << total.least_steps) < ranks) ++total.least_steps;
  return total;
}

}  // namespace allreduce
