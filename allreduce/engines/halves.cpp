// SPDX-License-Identifier: Apache-2.0
#include "allreduce/engines/halves.hpp"

#include <algorithm>
#include <map>

namespace allreduce {

namespace {

// Who wrote a piece last, and who read it since.
struct Touched {
  int writer = -1;
  std::vector<int> readers = {};
};

// What follows what on one rank: a reader the last writer, a writer the readers since.
class Order {
 public:
  Order(const Schedule& schedule, Rank rank)
      : data_(schedule.chunks), scratch_(schedule.places[rank] * schedule.scratch_width) {}

  void read(int half, const Chunk& chunk, std::vector<int>& after) {
    visit(chunk, [&](Touched& piece) {
      if (piece.writer >= 0) after.push_back(piece.writer);
      piece.readers.push_back(half);
    });
  }
  void write(int half, const Chunk& chunk, std::vector<int>& after) {
    visit(chunk, [&](Touched& piece) {
      if (piece.writer >= 0) after.push_back(piece.writer);
      after.insert(after.end(), piece.readers.begin(), piece.readers.end());
      piece = {half};
    });
  }

 private:
  template <typename Visitor>
  void visit(const Chunk& chunk, const Visitor& visitor) {
    if (chunk.space == Space::input) return;  // never written
    auto& pieces = chunk.space == Space::data ? data_ : scratch_;
    for (int piece = chunk.first; piece < chunk.first + chunk.count; ++piece) visitor(pieces[piece]);
  }

  std::vector<Touched> data_, scratch_;
};

}  // namespace

std::vector<Half> halves_of(const Schedule& schedule, const Verdict& verdict, Rank rank) {
  std::vector<bool> divides(schedule.ops.size());
  for (const OpId id : verdict.completing) divides[id] = true;
  const std::vector<int> pieces = first_pieces(schedule);
  std::map<std::pair<Rank, Rank>, int> messages;
  Order order(schedule, rank);
  std::vector<Half> halves;
  for (OpId id = 0; id < static_cast<OpId>(schedule.ops.size()); ++id) {
    const Op& op = schedule.ops[id];
    const bool crosses = op.from.rank != op.to.rank;
    const int message = crosses ? messages[{op.from.rank, op.to.rank}]++ : 0;
    if (op.from.rank != rank && op.to.rank != rank) continue;
    const auto number = static_cast<int>(halves.size());
    Half half{Half::Kind::copy, id, op.from, op.to, pieces[id], op.to.count, divides[id], message, {}};
    if (crosses) {
      half.kind = op.from.rank == rank ? Half::Kind::send : Half::Kind::receive;
    } else if (op.kind == Kind::reduce) {
      half.kind = Half::Kind::reduce;
    }
    if (op.from.rank == rank) order.read(number, op.from, half.after);
    if (op.to.rank == rank) order.write(number, op.to, half.after);
    std::ranges::sort(half.after);
    const auto [end, last] = std::ranges::unique(half.after);
    half.after.erase(end, last);
    std::erase(half.after, number);
    halves.push_back(std::move(half));
  }
  return halves;
}

}  // namespace allreduce
