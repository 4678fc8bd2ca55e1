// SPDX-License-Identifier: Apache-2.0
#include "allreduce/algorithms.hpp"

#include <algorithm>
#include <array>

namespace allreduce {

namespace {

constexpr std::array rows = {
    Algorithm{"parameter_server", "all to rank 0, which adds and sends back", parameter_server, false, false},
    Algorithm{"tree", "binomial reduce to rank 0, binomial broadcast", tree, false, false},
    Algorithm{"ring", "reduce-scatter and all-gather around a ring", ring, true, false},
    Algorithm{"bidirectional_ring", "two rings, half the vector each way", bidirectional_ring, true, false},
    Algorithm{"recursive_doubling", "partners exchange whole vectors, log2 n times", recursive_doubling, false, false},
    Algorithm{"halving_doubling", "reduce-scatter and all-gather by halves", halving_doubling, false, false},
    Algorithm{"double_tree", "two binary trees, each for half the vector", double_tree, false, false},
    Algorithm{"two_shot", "everyone adds up a slice and hands it out", two_shot, true, false},
    Algorithm{"one_shot", "everyone reads everyone", one_shot, false, false},
    Algorithm{"hierarchical", "reduce-scatter and all-gather in groups, rings across", hierarchical, false, true},
    Algorithm{"leader", "groups add up at their leaders, who share a ring", leader, false, true},
    Algorithm{"torus", "rings along the rows and columns of a grid", torus, true, false},
};

}  // namespace

std::span<const Algorithm> algorithms() { return rows; }

std::vector<std::string> select_algorithms(const std::vector<std::string>& wanted) {
  if (std::find(wanted.begin(), wanted.end(), "all") == wanted.end()) return wanted;
  std::vector<std::string> names;
  for (const auto& row : rows) names.emplace_back(row.name);
  return names;
}

const Algorithm* find_algorithm(std::string_view name) {
  for (const auto& row : rows) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

}  // namespace allreduce
