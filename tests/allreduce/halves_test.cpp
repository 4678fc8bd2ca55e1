// SPDX-License-Identifier: Apache-2.0
#include "allreduce/engines/halves.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "allreduce/algorithms.hpp"

namespace allreduce {
namespace {

// All ranks' halves, run one at a time in an order drawn at random from those that may begin. A message is what was
// there when it was sent, and arrives at any later moment. Contributions are powers of three, so that no other sum
// looks like that of all.
class AnyOrder {
 public:
  AnyOrder(const Schedule& schedule, std::vector<std::vector<Half>> halves, unsigned seed)
      : schedule_(schedule), halves_(std::move(halves)), random_(seed) {
    std::int64_t power = 1;
    for (int rank = 0; rank < schedule.shape.ranks; ++rank, power *= 3) {
      data_.emplace_back(schedule.chunks, schedule.shape.placement == Placement::in_place ? power : 0);
      input_.emplace_back(schedule.chunks, power);
      scratch_.emplace_back(schedule.places[rank] * schedule.scratch_width);
      sum_ += power;
      done_.emplace_back(halves_[rank].size());
    }
  }

  // Whether all ranks end with the sum everywhere; false too where they wait for each other.
  bool run() {
    std::size_t left = 0;
    for (const auto& halves : halves_) left += halves.size();
    for (; left > 0; --left) {
      std::vector<std::pair<Rank, int>> ready;
      for (Rank rank = 0; rank < schedule_.shape.ranks; ++rank) {
        for (int id = 0; id < static_cast<int>(halves_[rank].size()); ++id) {
          if (may_run(rank, halves_[rank][id]) && !done_[rank][id]) ready.emplace_back(rank, id);
        }
      }
      if (ready.empty()) return false;
      const auto [rank, id] = ready[random_() % ready.size()];
      perform(halves_[rank][id]);
      done_[rank][id] = true;
    }
    for (const auto& vector : data_) {
      if (vector != std::vector<std::int64_t>(schedule_.chunks, sum_)) return false;
    }
    return true;
  }

 private:
  bool may_run(Rank rank, const Half& half) const {
    for (const int before : half.after) {
      if (!done_[rank][before]) return false;
    }
    return half.kind != Half::Kind::receive || sent_.contains({half.from.rank, half.to.rank, half.message});
  }
  std::int64_t* at(const Chunk& chunk, int first) {
    if (chunk.space == Space::scratch) return &scratch_[chunk.rank][chunk.first];
    return &(chunk.space == Space::data ? data_ : input_)[chunk.rank][first];
  }
  void perform(const Half& half) {
    const auto key = std::tuple(half.from.rank, half.to.rank, half.message);
    if (half.kind == Half::Kind::send) {
      const auto* from = at(half.from, half.first);
      sent_[key] = {from, from + half.count};
      return;
    }
    auto* to = at(half.to, half.first);
    const auto* from = half.kind == Half::Kind::receive ? sent_.at(key).data() : at(half.from, half.first);
    for (int piece = 0; piece < half.count; ++piece) {
      to[piece] = from[piece] + (half.kind == Half::Kind::reduce ? to[piece] : 0);
    }
  }

  const Schedule& schedule_;
  std::vector<std::vector<Half>> halves_;
  std::mt19937 random_;
  std::int64_t sum_ = 0;
  std::vector<std::vector<std::int64_t>> data_, input_, scratch_;
  std::vector<std::vector<bool>> done_;
  std::map<std::tuple<Rank, Rank, int>, std::vector<std::int64_t>> sent_;
};

std::vector<std::vector<Half>> all_halves(const Schedule& schedule) {
  const Verdict verdict = verify(schedule);
  EXPECT_TRUE(verdict.proved) << verdict.reason;
  std::vector<std::vector<Half>> halves;
  for (Rank rank = 0; rank < schedule.shape.ranks; ++rank) halves.push_back(halves_of(schedule, verdict, rank));
  return halves;
}

TEST(Halves, OfEveryAlgorithmAreExactInWhateverOrderTheyMayBegin) {
  for (const Algorithm& algorithm : algorithms()) {
    for (const int ranks : {1, 2, 3, 4, 7}) {
      for (const Placement placement : {Placement::in_place, Placement::out_of_place}) {
        const Schedule schedule = algorithm.build({ranks, 2, placement});
        const auto halves = all_halves(schedule);
        for (unsigned seed = 0; seed < 3; ++seed) {
          EXPECT_TRUE(AnyOrder(schedule, halves, seed).run()) << algorithm.name << ' ' << ranks << ' ' << seed;
        }
      }
    }
  }
}

TEST(Halves, EachDependencyIsNeededSomewhere) {
  // Of a ring there is nothing to leave out: without any one of them some order gives a wrong sum, unless others imply
  // it.
  const Schedule schedule = find_algorithm("ring")->build({3, 1, Placement::in_place});
  const auto halves = all_halves(schedule);
  const auto implied = [](const std::vector<Half>& own, int id, int before) {
    std::vector<int> open;
    for (const int other : own[id].after) {
      if (other != before) open.push_back(other);
    }
    while (!open.empty()) {
      const int other = open.back();
      open.pop_back();
      if (other == before) return true;
      open.insert(open.end(), own[other].after.begin(), own[other].after.end());
    }
    return false;
  };
  int left_out = 0, seen = 0;
  for (Rank rank = 0; rank < 3; ++rank) {
    for (int id = 0; id < static_cast<int>(halves[rank].size()); ++id) {
      for (const int before : halves[rank][id].after) {
        if (implied(halves[rank], id, before)) continue;
        ++left_out;
        auto without = halves;
        std::erase(without[rank][id].after, before);
        bool wrong = false;
        for (unsigned seed = 0; seed < 300 && !wrong; ++seed) wrong = !AnyOrder(schedule, without, seed).run();
        seen += wrong;
      }
    }
  }
  EXPECT_GT(left_out, 10);
  // What is sent on and overwritten by its own sum coming back cannot be overtaken: the message carries the order.
  EXPECT_GT(seen, left_out / 2);
}

TEST(Halves, MessagesAreNumberedAlikeOnBothEnds) {
  const Schedule schedule = find_algorithm("torus")->build({6, 3, Placement::in_place});
  std::map<std::tuple<Rank, Rank, int>, OpId> sends, receives;
  for (const auto& halves : all_halves(schedule)) {
    for (const Half& half : halves) {
      if (half.kind == Half::Kind::send) sends[{half.from.rank, half.to.rank, half.message}] = half.op;
      if (half.kind == Half::Kind::receive) receives[{half.from.rank, half.to.rank, half.message}] = half.op;
    }
  }
  EXPECT_EQ(sends, receives);
  EXPECT_GT(sends.size(), 20U);
}

}  // namespace
}  // namespace allreduce
