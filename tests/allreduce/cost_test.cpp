// SPDX-License-Identifier: Apache-2.0
#include "allreduce/cost.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "allreduce/algorithms.hpp"
#include "allreduce/builder.hpp"

namespace allreduce {
namespace {

TEST(Cost, CountsTheBusiestRankAndTheLongestChain) {
  // Rank 0 sends two of four pieces to rank 1, which passes one of them on and gets another one back.
  Builder build("by hand", {3}, 4);
  build.copy(build.at(0, 0, 2), 1);
  build.copy(build.at(1, 0), 2);
  build.reduce(build.at(2, 3), 1);
  const Cost total = cost(std::move(build).finish());
  EXPECT_EQ(total.steps, 2);
  EXPECT_DOUBLE_EQ(total.sent, 0.5);
  EXPECT_DOUBLE_EQ(total.received, 0.75);
  EXPECT_DOUBLE_EQ(total.reduced, 0.25);
}

TEST(Cost, KnowsWhatNoAllReduceCanUndercut) {
  const Cost alone = cost(ring({1}));
  EXPECT_EQ(alone.least_steps, 0);
  EXPECT_DOUBLE_EQ(alone.least_sent, 0);
  const Cost five = cost(ring({5}));
  EXPECT_EQ(five.least_steps, 3);
  EXPECT_DOUBLE_EQ(five.least_sent, 1.6);
  EXPECT_DOUBLE_EQ(five.least_reduced, 0.8);
}

std::string cells(int steps, double sent, double reduced) {
  char text[64];
  std::snprintf(text, sizeof text, " %d | %.4g | %.4g |", steps, sent, reduced);
  return text;
}

// The table of allreduce/README.md: the catalogue against the bounds.
std::string table() {
  constexpr int sizes[] = {8, 12, 64};
  std::string head = "| algorithm |";
  std::string rule = "|---|";
  std::string least = "| *no less than* |";
  for (const int ranks : sizes) {
    head.append(" steps, ").append(std::to_string(ranks)).append(" ranks | sent | reduced |");
    rule += "---|---|---|";
    const Cost bounds = cost(ring({ranks}));
    least += cells(bounds.least_steps, bounds.least_sent, bounds.least_reduced);
  }
  std::string text = head.append("\n").append(rule).append("\n").append(least).append("\n");
  for (const Algorithm& algorithm : algorithms()) {
    text.append("| `").append(algorithm.name).append("` |");
    for (const int ranks : sizes) {
      const Cost total = cost(algorithm.build({ranks}));
      text += cells(total.steps, total.sent, total.reduced);
    }
    text.append("\n");
  }
  return text;
}

// With RINGMARK_UPDATE in the environment it is written anew.
TEST(CostTable, OfTheReadmeIsCurrent) {
  const std::string path = RINGMARK_SOURCE_DIR "/allreduce/README.md";
  std::stringstream read;
  read << std::ifstream(path).rdbuf();
  std::string page = read.str();
  const std::string begin = "<!-- costs: begin -->\n";
  const auto from = page.find(begin);
  const auto to = page.find("<!-- costs: end -->");
  ASSERT_NE(from, std::string::npos);
  ASSERT_NE(to, std::string::npos);
  const auto first = from + begin.size();
  if (std::getenv("RINGMARK_UPDATE") != nullptr) {
    std::ofstream(path) << page.replace(first, to - first, table());
  } else {
    EXPECT_EQ(page.substr(first, to - first), table()) << "see allreduce/README.md for the command that writes it";
  }
}

}  // namespace
}  // namespace allreduce
