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
    Algorithm{"ring", "around a ring", ring_reduce_scatter, true, false, Collective::reduce_scatter},
    Algorithm{"direct", "each owner reads everyone", direct_reduce_scatter, true, false, Collective::reduce_scatter},
    Algorithm{"dissemination", "the farther half adds to the nearer, log2 n times", dissemination_reduce_scatter, true,
              false, Collective::reduce_scatter},
    Algorithm{"ring", "around a ring", ring_all_gather, true, false, Collective::all_gather},
    Algorithm{"direct", "everyone reads each owner", direct_all_gather, true, false, Collective::all_gather},
    Algorithm{"dissemination", "to twice as many each time, log2 n times", dissemination_all_gather, true, false,
              Collective::all_gather},
    Algorithm{"direct", "everyone reads the root", direct_broadcast, false, false, Collective::broadcast},
    Algorithm{"tree", "a binomial tree", tree_broadcast, false, false, Collective::broadcast},
    Algorithm{"ring", "a chain", ring_broadcast, true, false, Collective::broadcast},
    Algorithm{"direct", "the root reads everyone", direct_reduce, false, false, Collective::reduce},
    Algorithm{"tree", "a binomial tree", tree_reduce, false, false, Collective::reduce},
    Algorithm{"ring", "a chain", ring_reduce, true, false, Collective::reduce},
};

}  // namespace

// The rows of each collective stand together.
std::span<const Algorithm> algorithms(Collective collective) {
  const auto is_of = [&](const Algorithm& row) { return row.collective == collective; };
  const auto first = std::find_if(rows.begin(), rows.end(), is_of);
  return {first, std::find_if_not(first, rows.end(), is_of)};
}

std::vector<std::string> select_algorithms(const std::vector<std::string>& wanted, Collective collective) {
  if (std::find(wanted.begin(), wanted.end(), "all") == wanted.end()) return wanted;
  std::vector<std::string> names;
  for (const auto& row : algorithms(collective)) names.emplace_back(row.name);
  return names;
}

const Algorithm* find_algorithm(std::string_view name, Collective collective) {
  for (const auto& row : algorithms(collective)) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

}  // namespace allreduce
