// SPDX-License-Identifier: Apache-2.0
#include "allreduce/verify.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <unordered_map>
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
  explicit Expressions(int ranks) : ranks_(ranks) {
    for (Rank rank = 0; rank < ranks; ++rank) {
      members_.push_back({runs_.size(), 1});
      runs_.push_back({rank, rank + 1});
    }
  }

  static Expression contribution(Rank rank) { return rank; }

  // Nothing when a contribution is in both.
  std::optional<Expression> add(Expression a, Expression b) {
    const auto [low, high] = std::minmax(a, b);
    const auto [sum, fresh] =
        sums_.try_emplace(static_cast<std::uint64_t>(low) << 32 | static_cast<std::uint64_t>(high), nothing);
    if (!fresh) return sum->second == nothing ? std::nullopt : std::optional(sum->second);
    const std::size_t begin = runs_.size();
    Members left = members_[a];
    Members right = members_[b];
    while (left.count + right.count > 0) {
      const bool from_left = right.count == 0 || (left.count > 0 && runs_[left.first] < runs_[right.first]);
      Members& side = from_left ? left : right;
      const Run run = runs_[side.first++];
      --side.count;
      if (runs_.size() > begin && run.first < runs_.back().second) {
        runs_.resize(begin);
        return std::nullopt;
      }
      if (runs_.size() > begin && run.first == runs_.back().second) {
        runs_.back().second = run.second;
      } else {
        runs_.push_back(run);
      }
    }
    members_.push_back({begin, runs_.size() - begin});
    sum->second = static_cast<Expression>(members_.size()) - 1;
    return sum->second;
  }

  bool complete(Expression a) const { return members_[a].count == 1 && runs_[members_[a].first] == Run(0, ranks_); }
  // The first rank whose contribution is missing.
  Rank missing(Expression a) const {
    const Run& first = runs_[members_[a].first];
    return first.first > 0 ? 0 : first.second;
  }
  // Runs that all sums hold together: what they cost in memory and time.
  std::size_t runs() const { return runs_.size(); }

 private:
  using Run = std::pair<Rank, Rank>;  // from the first to before the second
  struct Members {
    std::size_t first, count;  // of runs_
  };
  int ranks_;
  std::vector<Run> runs_;
  std::vector<Members> members_;
  std::unordered_map<std::uint64_t, Expression> sums_;  // (lower, higher) summand; nothing where they overlap
};

// What is known of an interval of one space of one rank while the ops are gone through in order.
struct Cell {
  Expression value = nothing;
  int piece = 0;  // scratch: the piece of the vector that stands at the beginning of the interval
  OpId writer = -1;
  int readers = Lists::empty;  // since it was written
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
    verdict.work = work_ + expressions_.runs();
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
    if (schedule_.shape.root < 0 || schedule_.shape.root >= ranks_) return wrong("has no root");
    if (has_slices(schedule_.collective) && schedule_.chunks % ranks_ != 0) return wrong("has no slice for each rank");
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
      data_.emplace_back(schedule_.chunks, Cell{});
      scratch_.emplace_back(std::max(1, schedule_.places[rank] * schedule_.scratch_width), Cell{});
      input_.emplace_back(schedule_.chunks, Cell{});
      const auto [first, count] = schedule_.brings(rank);
      (in_place ? data_ : input_).back().assign(first, count, {Expressions::contribution(rank)});
    }
  }

  Intervals<Cell>& cells(const Chunk& chunk) {
    auto& space = chunk.space == Space::data ? data_ : chunk.space == Space::scratch ? scratch_ : input_;
    return space[chunk.rank];
  }

  // Whether `before` ends before the op that is looked at begins. A builder names what conflicts directly.
  bool ordered(OpId before) {
    if (std::binary_search(direct_.begin(), direct_.end(), before)) return true;
    seen_.resize(schedule_.ops.size(), 0);
    ++search_;
    std::vector<OpId> open(direct_);
    while (!open.empty()) {
      const OpId at = open.back();
      open.pop_back();
      ++work_;
      if (at == before) return true;
      if (at < before || seen_[at] == search_) continue;
      seen_[at] = search_;
      const auto& after = schedule_.ops[at].after;
      open.insert(open.end(), after.begin(), after.end());
    }
    return false;
  }

  struct Part {
    int offset, count;
    Expression value;
    int piece;
  };
  enum class Reads { source, target };

  // What stands in a chunk, by parts; false where a read is not allowed. What a reduce reads of its target it also
  // writes, and write() looks at the order.
  bool read(const Chunk& chunk, Reads reads, std::vector<Part>& parts) {
    parts.clear();
    bool good = true;
    cells(chunk).visit(chunk.first, chunk.count, [&](int first, int count, Cell& cell) {
      ++work_;
      if (!good) return;
      if (cell.value == nothing) {
        good = wrong(current_, "reads " + std::string(chunk.space == Space::scratch ? "scratch" : "a chunk") +
                                   " that was never written");
        return;
      }
      if (reads == Reads::source) {
        if (cell.writer >= 0 && !ordered(cell.writer)) {
          good = wrong(current_, "reads what op " + std::to_string(cell.writer) + " writes, unordered");
        }
        cell.readers = readers_.push(cell.readers, current_);
      }
      const int piece = chunk.space == Space::scratch ? cell.piece : first;
      if (!parts.empty() && parts.back().value == cell.value && parts.back().piece + parts.back().count == piece) {
        parts.back().count += count;
      } else {
        parts.push_back({first - chunk.first, count, cell.value, piece});
      }
    });
    return good;
  }

  bool write(const Chunk& chunk, const Part& part) {
    bool good = true;
    auto& target = cells(chunk);
    target.visit(chunk.first + part.offset, part.count, [&](int, int, Cell& cell) {
      ++work_;
      if (!good) return;
      bool read_since = false;
      readers_.visit(cell.readers, [&](OpId reader) {
        ++work_;
        read_since = true;
        if (good && reader != current_ && !ordered(reader)) {
          good = wrong(current_, "writes what op " + std::to_string(reader) + " reads, unordered");
        }
      });
      // Whoever read it is known to follow its writer.
      if (good && !read_since && cell.writer >= 0 && !ordered(cell.writer)) {
        good = wrong(current_, "and op " + std::to_string(cell.writer) + " write the same chunk, unordered");
      }
    });
    target.assign(chunk.first + part.offset, part.count, {part.value, part.piece, current_});
    return good;
  }

  bool all_ops(Verdict& verdict) {
    for (current_ = 0; current_ < static_cast<OpId>(schedule_.ops.size()); ++current_) {
      const Op& op = schedule_.ops[current_];
      direct_ = op.after;
      std::sort(direct_.begin(), direct_.end());
      work_ += direct_.size();
      if (!read(op.from, Reads::source, from_)) return false;
      bool completes = false;
      bool leaves_open = false;
      for (const Part& part : from_) {
        if (op.to.space == Space::data && part.piece != op.to.first + part.offset) {
          return wrong(current_, "brings piece " + std::to_string(part.piece) + " to the place of piece " +
                                     std::to_string(op.to.first + part.offset));
        }
        if (op.kind == Kind::copy) {
          if (!write(op.to, part)) return false;
          continue;
        }
        if (!read({op.to.rank, op.to.space, op.to.first + part.offset, part.count}, Reads::target, own_)) return false;
        for (const Part& target : own_) {
          if (target.piece != part.piece + target.offset) return wrong(current_, "adds different pieces");
          const auto sum = expressions_.add(part.value, target.value);
          if (!sum) return wrong(current_, "adds a contribution twice");
          (expressions_.complete(*sum) ? completes : leaves_open) = true;
          if (!write(op.to, {part.offset + target.offset, target.count, *sum, target.piece})) return false;
        }
      }
      if (completes && leaves_open) return wrong(current_, "completes only some of its pieces");
      if (completes) verdict.completing.push_back(current_);
    }
    return true;
  }

  // Whose contribution alone a piece must be at the end; nobody's where it must be the sum of all.
  std::optional<Rank> sole_source(int piece) const {
    if (schedule_.collective == Collective::broadcast) return schedule_.shape.root;
    if (schedule_.collective == Collective::all_gather) return piece / (schedule_.chunks / ranks_);
    return std::nullopt;
  }

  bool ends_right(Rank rank, int piece, Expression value) {
    const std::string where = "rank " + std::to_string(rank) + " ends without ";
    const std::string in_chunk = " in chunk " + std::to_string(piece);
    if (value == nothing) return wrong(where + "anything" + in_chunk);
    if (const auto source = sole_source(piece)) {
      if (value == Expressions::contribution(*source)) return true;
      return wrong(where + "just the contribution of rank " + std::to_string(*source) + in_chunk);
    }
    if (expressions_.complete(value)) return true;
    return wrong(where + "the contribution of rank " + std::to_string(expressions_.missing(value)) + in_chunk);
  }

  // At the end every rank has what the collective owes it; the sums of an all-reduce by one and the same tree.
  bool result() {
    bool good = true;
    for (Rank rank = 0; rank < ranks_ && good; ++rank) {
      const auto [from, owed] = schedule_.owes(rank);
      data_[rank].visit(from, owed, [&](int first, int count, Cell& cell) {
        ++work_;
        for (int piece = first; piece < first + count && good; ++piece) {
          good = ends_right(rank, piece, cell.value);
          if (schedule_.collective != Collective::all_gather) break;  // the pieces of an interval are alike
        }
        if (!good || rank == 0 || schedule_.collective != Collective::allreduce) return;
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
  Lists readers_;
  OpId current_ = 0;               // the op that is looked at,
  std::vector<OpId> direct_;       // what it follows by its own word, sorted,
  std::vector<Part> from_, own_;   // and what stands in its two ends
  std::vector<std::size_t> seen_;  // of an op: the last search through the dependencies that came by
  std::size_t search_ = 0;
  std::size_t work_ = 0;
  std::string reason_;
};

}  // namespace

Verdict verify(const Schedule& schedule) { return Verifier(schedule)(); }

}  // namespace allreduce
