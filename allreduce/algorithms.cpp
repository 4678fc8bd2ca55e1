// SPDX-License-Identifier: Apache-2.0
#include "allreduce/algorithms.hpp"

#include <algorithm>
#include <array>

namespace allreduce {

namespace {

constexpr std::array rows = {
    Algorithm{"parameter_server", "all to rank 0, which adds and sends back", parameter_server, false},
    Algorithm{"tree", "binomial reduce to rank 0, binomial broadcast", tree, false},
    Algorithm{"ring", "reduce-scatter and all-gather around a ring", ring, true},
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
