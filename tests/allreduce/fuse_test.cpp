// SPDX-License-Identifier: Apache-2.0
#include "allreduce/fuse.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "allreduce/algorithms.hpp"

namespace allreduce {
namespace {

using Lists = std::vector<std::vector<Move>>;

// Numbers whose sums tell which were added, and how often.
std::uint64_t contribution_of(Rank rank) { return std::uint64_t{1} << (4 * rank); }
std::uint64_t result_of(const Schedule& schedule, int piece) {
  std::uint64_t sum = 0;
  for (Rank rank = 0; rank < schedule.shape.ranks; ++rank) {
    const auto [first, count] = schedule.brings(rank);
    if (piece >= first && piece < first + count) sum += contribution_of(rank);
  }
  return sum;
}

// Runs the lists in one thread, in a random order that their `after` allows; a move reads at one moment and writes at a
// later one, so that whoever comes between is seen. True when every rank has what it is owed.
bool is_exact(const Schedule& schedule, const Lists& lists, std::uint64_t seed) {
  const int ranks = schedule.shape.ranks;
  std::map<std::tuple<Rank, Space, int>, std::uint64_t> memory;
  const Space given = schedule.shape.placement == Placement::in_place ? Space::data : Space::input;
  for (Rank rank = 0; rank < ranks; ++rank) {
    const auto [first, count] = schedule.brings(rank);
    for (int piece = first; piece < first + count; ++piece) memory[{rank, given, piece}] = contribution_of(rank);
  }
  const auto cell = [&](const Chunk& chunk, const Move& move, int piece) -> std::uint64_t& {
    const int at = chunk.space == Space::scratch ? 1000 * chunk.first + piece : move.first + piece;
    return memory[{chunk.rank, chunk.space, at}];
  };
  std::mt19937_64 random(seed);
  std::vector<std::size_t> ended(ranks);
  std::vector<std::vector<std::uint64_t>> read(ranks);  // of the move that a rank is in
  for (;;) {
    std::vector<Rank> able;
    for (Rank rank = 0; rank < ranks; ++rank) {
      if (ended[rank] == lists[rank].size()) continue;
      const auto& after = lists[rank][ended[rank]].after;
      const bool ready = std::all_of(after.begin(), after.end(), [&](const Move::After& one) {
        return ended[one.rank] >= static_cast<std::size_t>(one.moves);
      });
      if (ready || !read[rank].empty()) able.push_back(rank);
    }
    if (able.empty()) break;
    const Rank rank = able[random() % able.size()];
    const Move& move = lists[rank][ended[rank]];
    if (read[rank].empty()) {
      for (int piece = 0; piece < move.count; ++piece) {
        std::uint64_t sum = 0;
        for (const Chunk& from : move.from) sum += cell(from, move, piece);
        read[rank].push_back(sum);
      }
      continue;
    }
    for (const Chunk& to : move.to) {
      for (int piece = 0; piece < move.count; ++piece) cell(to, move, piece) = read[rank][piece];
    }
    read[rank].clear();
    ++ended[rank];
  }
  for (Rank rank = 0; rank < ranks; ++rank) {
    if (ended[rank] < lists[rank].size()) return false;  // they wait for each other
    const auto [first, count] = schedule.owes(rank);
    for (int piece = first; piece < first + count; ++piece) {
      if (memory[{rank, Space::data, piece}] != result_of(schedule, piece)) return false;
    }
  }
  return true;
}

// Whether `one` of the things that move `position` of `rank` waits for is implied by the others.
bool is_implied(const Lists& lists, Rank rank, std::size_t position, std::size_t one) {
  const Move::After wanted = lists[rank][position].after[one];
  std::vector<std::size_t> known(lists.size());  // of each rank, so many moves have ended for sure
  std::vector<std::pair<Rank, std::size_t>> open = {{rank, position}};
  std::vector<std::vector<bool>> seen;
  for (const auto& list : lists) seen.emplace_back(list.size());
  while (!open.empty()) {
    const auto [at, index] = open.back();
    open.pop_back();
    if (seen[at][index]) continue;
    seen[at][index] = true;
    if (index > 0) open.emplace_back(at, index - 1);
    const auto& after = lists[at][index].after;
    for (std::size_t i = 0; i < after.size(); ++i) {
      if (at == rank && index == position && i == one) continue;
      known[after[i].rank] = std::max(known[after[i].rank], static_cast<std::size_t>(after[i].moves));
      open.emplace_back(after[i].rank, after[i].moves - 1);
    }
  }
  return known[wanted.rank] >= static_cast<std::size_t>(wanted.moves);
}

class FuseEachCollective : public testing::TestWithParam<Collective> {};

TEST_P(FuseEachCollective, GivesTheResultInEveryInterleaving) {
  for (const Algorithm& algorithm : algorithms(GetParam())) {
    for (int ranks = 1; ranks <= 9; ++ranks) {
      for (const int pieces : {1, 2}) {
        for (const Placement placement : {Placement::in_place, Placement::out_of_place}) {
          const Schedule schedule = algorithm.build({ranks, pieces, placement, 0, ranks / 2});
          const Lists lists = fuse(schedule, verify(schedule));
          for (std::uint64_t seed = 0; seed < 20; ++seed) {
            ASSERT_TRUE(is_exact(schedule, lists, seed)) << schedule.name << ' ' << ranks << ' ' << pieces;
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, FuseEachCollective, testing::ValuesIn(all_collectives),
                         [](const auto& row) { return std::string(name(row.param)); });

TEST(Fuse, KeepsNoWaitThatCanBeLeftOutUnlessOthersImplyIt) {
  int needed = 0;
  for (const Algorithm& algorithm : algorithms()) {
    for (int ranks = 2; ranks <= 5; ++ranks) {
      const Schedule schedule = algorithm.build({ranks});
      const Lists lists = fuse(schedule, verify(schedule));
      for (Rank rank = 0; rank < ranks; ++rank) {
        for (std::size_t position = 0; position < lists[rank].size(); ++position) {
          for (std::size_t one = 0; one < lists[rank][position].after.size(); ++one) {
            if (is_implied(lists, rank, position, one)) continue;
            Lists loose = lists;
            auto& after = loose[rank][position].after;
            after.erase(after.begin() + static_cast<std::ptrdiff_t>(one));
            bool wrong = false;
            for (std::uint64_t seed = 0; seed < 20000 && !wrong; ++seed) wrong = !is_exact(schedule, loose, seed);
            EXPECT_TRUE(wrong) << schedule.name << " of " << ranks << ": rank " << rank << ", move " << position;
            ++needed;
          }
        }
      }
    }
  }
  EXPECT_GT(needed, 0);
}

TEST(Fuse, MakesTheRingOfTwoRanksOnePassOfEachOverItsHalf) {
  const Schedule schedule = ring({2});
  const Lists lists = fuse(schedule, verify(schedule));
  for (const auto& list : lists) {
    ASSERT_EQ(list.size(), 1U);
    EXPECT_EQ(list[0].from.size(), 2U);
    EXPECT_EQ(list[0].to.size(), 2U);
    EXPECT_TRUE(list[0].after.empty());
  }
}

TEST(Fuse, DoesNotMakeAParameterServerHandOutItsSumsAlone) {
  const Schedule schedule = parameter_server({4});
  const Lists lists = fuse(schedule, verify(schedule));
  ASSERT_EQ(lists[0].size(), 1U);
  EXPECT_EQ(lists[0][0].from.size(), 4U);
  EXPECT_EQ(lists[0][0].to.size(), 1U);
  for (Rank rank = 1; rank < 4; ++rank) EXPECT_EQ(lists[rank].size(), 1U);
}

}  // namespace
}  // namespace allreduce
