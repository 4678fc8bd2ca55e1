// SPDX-License-Identifier: Apache-2.0
#include "allreduce/bound.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <set>

namespace allreduce {

namespace {

using Groups = std::vector<std::vector<Rank>>;

// The largest flow by shortest augmenting paths (Edmonds and Karp, 1972) from the group's devices to all others.
class Flow {
 public:
  explicit Flow(const Topology& topology) : topology_(topology), at_node_(topology.nodes.size()) {
    for (std::size_t link = 0; link < topology.links.size(); ++link) {
      const int id = static_cast<int>(link);
      at_node_[topology.links[link].from].push_back(id);
      at_node_[topology.links[link].to].push_back(id);
      capacity_.push_back(std::max(topology.rate(id, Mover::copy_engine), topology.rate(id, Mover::kernel)));
    }
    rank_of_.assign(topology.nodes.size(), -1);
    for (Rank rank = 0; rank < topology.size(); ++rank) rank_of_[topology.ranks[rank]] = rank;
  }

  double out_of(const std::vector<Rank>& group) {
    used_.assign(capacity_.size(), 0);
    std::vector<bool> source(topology_.nodes.size());
    for (const Rank rank : group) source[topology_.ranks[rank]] = true;
    double total = 0;
    for (double more = augment(source); more > 0; more = augment(source)) total += more;
    return total;
  }

 private:
  double augment(const std::vector<bool>& source) {
    std::vector<int> led_by(topology_.nodes.size(), -2);
    std::vector<int> queue;
    for (std::size_t node = 0; node < source.size(); ++node) {
      if (!source[node]) continue;
      led_by[node] = -1;
      queue.push_back(static_cast<int>(node));
    }
    for (std::size_t at = 0; at < queue.size(); ++at) {
      const int node = queue[at];
      if (rank_of_[node] >= 0 && !source[node]) return push(node, led_by);
      for (const int link : at_node_[node]) {
        const auto& [from, to, _, count] = topology_.links[link];
        const int other = from == node ? to : from;
        const double left = from == node ? capacity_[link] - used_[link] : used_[link];
        if (left <= capacity_[link] * 1e-9 || led_by[other] != -2) continue;
        led_by[other] = link;
        queue.push_back(other);
      }
    }
    return 0;
  }

  double push(int node, const std::vector<int>& led_by) {
    double most = std::numeric_limits<double>::infinity();
    const auto walk = [&](const std::function<void(int, bool)>& visit) {
      for (int at = node; led_by[at] >= 0;) {
        const Link& link = topology_.links[led_by[at]];
        const bool forward = link.to == at;
        visit(led_by[at], forward);
        at = forward ? link.from : link.to;
      }
    };
    walk([&](int link, bool forward) { most = std::min(most, forward ? capacity_[link] - used_[link] : used_[link]); });
    walk([&](int link, bool forward) { used_[link] += forward ? most : -most; });
    return most;
  }

  const Topology& topology_;
  std::vector<std::vector<int>> at_node_;
  std::vector<double> capacity_, used_;
  std::vector<Rank> rank_of_;  // by node
};

// Ranks that are joined by links of which `joins` approves.
Groups joined(const Topology& topology, const std::function<bool(const Link&)>& joins) {
  std::vector<int> parent(topology.nodes.size());
  std::iota(parent.begin(), parent.end(), 0);
  const std::function<int(int)> root = [&](int node) {
    while (parent[node] != node) node = parent[node] = parent[parent[node]];
    return node;
  };
  for (const Link& link : topology.links) {
    if (joins(link)) parent[root(link.from)] = root(link.to);
  }
  std::map<int, std::vector<Rank>> groups;
  for (Rank rank = 0; rank < topology.size(); ++rank) groups[root(topology.ranks[rank])].push_back(rank);
  Groups result;
  for (auto& [_, group] : groups) result.push_back(std::move(group));
  return result;
}

std::set<Groups> cuts(const Topology& topology) {
  const auto kind = [&](const Link& link) { return topology.classes[link.link_class].kind; };
  const auto at_cpu = [&](const Link& link) {
    return topology.nodes[link.from].kind == NodeKind::cpu || topology.nodes[link.to].kind == NodeKind::cpu;
  };
  std::set<Groups> all;
  all.insert(joined(topology, [](const Link&) { return false; }));
  all.insert(joined(topology, [&](const Link& link) { return kind(link) != LinkKind::network; }));
  all.insert(joined(topology, [&](const Link& link) { return kind(link) == LinkKind::nvlink; }));
  all.insert(joined(topology, [&](const Link& link) { return kind(link) == LinkKind::pcie; }));
  all.insert(joined(topology, [&](const Link& link) { return kind(link) == LinkKind::pcie && !at_cpu(link); }));
  // What one node of the NVLink kind stands for: the leaves of a tree.
  for (const Link& link : topology.links) {
    if (topology.forwards && topology.nodes[link.from].kind == NodeKind::nvswitch &&
        topology.nodes[link.to].kind == NodeKind::nvswitch) {
      all.insert(joined(topology, [&](const Link& other) {
        return topology.nodes[other.from].kind == NodeKind::gpu || topology.nodes[other.to].kind == NodeKind::gpu;
      }));
      break;
    }
  }
  const int ranks = topology.size();
  if (ranks <= 8) {
    for (unsigned set = 1; set < (1U << ranks) - 1; set += 2) {  // rank 0 is always in the first group
      Groups two(2);
      for (Rank rank = 0; rank < ranks; ++rank) two[(set >> rank) & 1U ? 0 : 1].push_back(rank);
      all.insert(std::move(two));
    }
  }
  return all;
}

}  // namespace

double outgoing_rate(const Topology& topology, const std::vector<Rank>& group) { return Flow(topology).out_of(group); }

Bound bound(const Topology& topology) {
  Bound best;
  Flow flow(topology);
  const auto consider = [&](const Groups& groups, double vectors, double rate) {
    if (rate <= 0 || vectors / rate <= best.seconds_per_byte) return;
    best = {vectors / rate, groups, rate};
  };
  for (const Groups& groups : cuts(topology)) {
    if (groups.size() < 2) continue;
    double all = 0;
    for (const auto& group : groups) {
      const double rate = flow.out_of(group);
      all += rate;
      if (groups.size() == 2 || !topology.in_switch_reduction) continue;
      Groups two = {group, {}};
      for (Rank rank = 0; rank < topology.size(); ++rank) {
        if (std::ranges::find(group, rank) == group.end()) two[1].push_back(rank);
      }
      consider(two, 1, rate);
    }
    if (groups.size() == 2) {
      // Each of the two must send at least one vector; the slower direction decides.
      consider(groups, 1, std::min(flow.out_of(groups[0]), flow.out_of(groups[1])));
    } else if (!topology.in_switch_reduction) {
      consider(groups, 2.0 * static_cast<double>(groups.size() - 1), all);
    }
  }
  return best;
}

}  // namespace allreduce
