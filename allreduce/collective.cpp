// SPDX-License-Identifier: Apache-2.0
#include "allreduce/collective.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "harness/error.hpp"

namespace allreduce {

namespace {

constexpr std::array<std::string_view, std::size(all_collectives)> names = {
    "allreduce", "reduce_scatter", "all_gather", "broadcast", "reduce", "all_to_all", "send_recv"};

}  // namespace

std::string_view name(Collective collective) { return names[static_cast<int>(collective)]; }

Collective parse_collective(std::string_view name) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) throw harness::Error("there is no collective '" + std::string(name) + "'");
  return static_cast<Collective>(found - names.begin());
}

bool reduces(Collective collective) {
  return collective == Collective::allreduce || collective == Collective::reduce_scatter ||
         collective == Collective::reduce;
}

bool has_slices(Collective collective) {
  return collective == Collective::reduce_scatter || collective == Collective::all_gather ||
         collective == Collective::all_to_all;
}

bool has_root(Collective collective) { return collective == Collective::broadcast || collective == Collective::reduce; }

bool differs_by_rank(Collective collective) {
  return collective == Collective::all_to_all || collective == Collective::send_recv;
}

std::optional<double> busbw_factor(Collective collective, int ranks) {
  if (ranks < 2) return std::nullopt;
  const double share = (ranks - 1.0) / ranks;
  if (collective == Collective::allreduce) return 2 * share;
  return has_slices(collective) ? share : 1;
}

}  // namespace allreduce
