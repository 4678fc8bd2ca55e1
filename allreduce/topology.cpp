// SPDX-License-Identifier: Apache-2.0
#include "allreduce/topology.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "harness/error.hpp"
#include "harness/text.hpp"

namespace allreduce {

int Topology::add_node(std::string node_name, NodeKind kind, int host) {
  nodes.push_back({std::move(node_name), kind, host});
  return static_cast<int>(nodes.size()) - 1;
}

int Topology::add_class(LinkClass link_class) {
  for (std::size_t at = 0; at < classes.size(); ++at) {
    if (classes[at].name == link_class.name) return static_cast<int>(at);
  }
  classes.push_back(std::move(link_class));
  return static_cast<int>(classes.size()) - 1;
}

void Topology::add_link(int from, int to, int link_class, double count) {
  links.push_back({from, to, link_class, count});
}

void Topology::join(int one, int other, int link_class, double count) {
  add_link(one, other, link_class, count);
  add_link(other, one, link_class, count);
}

std::string Topology::describe(int link) const {
  const Link& found = links[link];
  std::string text = nodes[found.from].name;
  text.append(" > ").append(nodes[found.to].name).append(" (").append(classes[found.link_class].name);
  if (found.count != 1) {
    const double whole = std::round(found.count);
    text.append(" x").append(whole == found.count ? std::to_string(std::lround(whole))
                                                  : harness::format_real(found.count));
  }
  return text.append(")");
}

Router::Router(const Topology& topology, Mover mover)
    : topology_(topology), mover_(mover), outgoing_(topology.nodes.size()), incoming_(topology.nodes.size()) {
  for (std::size_t link = 0; link < topology.links.size(); ++link) {
    outgoing_[topology.links[link].from].push_back(static_cast<int>(link));
    incoming_[topology.links[link].to].push_back(static_cast<int>(link));
  }
  const std::size_t links = topology.links.size();
  capacities_.assign(2 * links, std::numeric_limits<double>::infinity());
  direction_pair_.assign(links, -1);
  std::map<std::tuple<int, int, int>, std::size_t> one_way;
  for (std::size_t link = 0; link < links; ++link) {
    const auto& [from, to, link_class, count] = topology.links[link];
    capacities_[link] = topology.rate(static_cast<int>(link), mover);
    const double both = topology.classes[link_class].both[static_cast<int>(mover)];
    if (both <= 0) continue;
    const auto back = one_way.find({to, from, link_class});
    if (back == one_way.end()) {
      one_way[{from, to, link_class}] = link;
    } else {
      direction_pair_[link] = direction_pair_[back->second] = static_cast<int>(links + link);
      capacities_[links + link] = both * count;
      one_way.erase(back);
    }
  }
  for (int end = 0; end < 2; ++end) {
    seen_[end].assign(topology.nodes.size(), -1);
    led_by_[end].assign(topology.nodes.size(), -1);
  }
}

const Route* Router::find_between(Rank from, Rank to) {
  auto known = known_.find({from, to});
  if (known == known_.end()) {
    known = known_.emplace(std::pair(from, to), find(topology_.ranks[from], topology_.ranks[to])).first;
  }
  return known->second ? &*known->second : nullptr;
}

const Route& Router::between(Rank from, Rank to) {
  if (const Route* route = find_between(from, to)) return *route;
  throw harness::Error(topology_.name + ": there is no way from " + topology_.nodes[topology_.ranks[from]].name +
                       " to " + topology_.nodes[topology_.ranks[to]].name);
}

// The fewest links from one node to another over what is allowed. From both ends, the smaller frontier first, or a hub
// with ten thousand neighbours is looked through for every pair of them.
template <typename Allowed>
bool Router::search(int from, int to, const Allowed& allowed, Path& path) {
  path.clear();
  if (from == to) return true;
  const int search = searches_++;
  std::vector<int> frontier[2] = {{from}, {to}};
  seen_[0][from] = seen_[1][to] = search;
  led_by_[0][from] = led_by_[1][to] = -1;
  while (!frontier[0].empty() && !frontier[1].empty()) {
    std::size_t edges[2] = {0, 0};
    for (const int node : frontier[0]) edges[0] += outgoing_[node].size();
    for (const int node : frontier[1]) edges[1] += incoming_[node].size();
    const int end = edges[0] <= edges[1] ? 0 : 1;
    std::vector<int> next;
    int meeting = -1;
    for (const int node : frontier[end]) {
      for (const int link : end == 0 ? outgoing_[node] : incoming_[node]) {
        const int other = end == 0 ? topology_.links[link].to : topology_.links[link].from;
        if (seen_[end][other] == search) continue;
        if (!allowed(link) || (other != from && other != to && !allowed.passes(other))) continue;
        seen_[end][other] = search;
        led_by_[end][other] = link;
        if (seen_[1 - end][other] == search) {
          meeting = other;
          break;
        }
        next.push_back(other);
      }
      if (meeting >= 0) break;
    }
    if (meeting >= 0) {
      for (int node = meeting; led_by_[0][node] >= 0; node = topology_.links[path.back()].from) {
        path.push_back(led_by_[0][node]);
      }
      std::reverse(path.begin(), path.end());
      for (int node = meeting; led_by_[1][node] >= 0; node = topology_.links[path.back()].to) {
        path.push_back(led_by_[1][node]);
      }
      return true;
    }
    frontier[end] = std::move(next);
  }
  return false;
}

namespace {

// What a way may be made of: kinds of links, and kinds of nodes between its ends.
struct Allowed {
  const Topology& topology;
  std::vector<LinkKind> kinds;
  std::vector<NodeKind> between;
  bool operator()(int link) const { return std::ranges::find(kinds, topology.kind(link)) != kinds.end(); }
  bool passes(int node) const { return std::ranges::find(between, topology.nodes[node].kind) != between.end(); }
};

}  // namespace

Route Router::as_peer(const Path& path, bool through_root) const {
  Route route;
  route.links = path;
  for (const int link : path) {
    route.latency_seconds += topology_.classes[topology_.links[link].link_class].latency_seconds;
    route.weights.push_back(through_root && topology_.kind(link) == LinkKind::pcie ? topology_.root_overhead : 1.0);
  }
  share(route);
  return route;
}

// The resources of a route whose links have their weights.
void Router::share(Route& route) const {
  route.resources = route.links;
  for (std::size_t hop = 0; hop < route.links.size(); ++hop) {
    const int pair = direction_pair_[route.links[hop]];
    if (pair < 0) continue;
    const LinkClass& link_class = topology_.classes[topology_.links[route.links[hop]].link_class];
    const int mover = static_cast<int>(mover_);
    const bool staged = route.transport == Transport::staged && link_class.both_staged[mover] > 0;
    route.resources.push_back(pair);
    route.weights.push_back(staged ? link_class.both[mover] / link_class.both_staged[mover] : route.weights[hop]);
  }
}

// Through host memory a link carries less than between peers, as its class says.
Route Router::as_staged(const Path& there, const Path& back, int memory) const {
  Route route;
  route.transport = Transport::staged;
  route.latency_seconds = topology_.staging_latency;
  route.links = there;
  const int root = topology_.links[there.back()].to;
  for (const int link : outgoing_[root]) {
    if (topology_.links[link].to == memory) route.links.push_back(link);
  }
  for (const int link : incoming_[root]) {
    if (topology_.links[link].from == memory) route.links.push_back(link);
  }
  route.links.insert(route.links.end(), back.begin(), back.end());
  for (const int link : route.links) {
    const LinkClass& link_class = topology_.classes[topology_.links[link].link_class];
    const int mover = static_cast<int>(mover_);
    route.latency_seconds += link_class.latency_seconds;
    route.weights.push_back(link_class.staged[mover] > 0 ? link_class.rate[mover] / link_class.staged[mover] : 1.0);
  }
  share(route);
  return route;
}

std::optional<Route> Router::find(int from, int to) {
  if (from == to) return Route{};
  Path path;
  std::vector<NodeKind> passing = {NodeKind::nvswitch};
  if (topology_.forwards) passing.push_back(NodeKind::gpu);
  if (search(from, to, Allowed{topology_, {LinkKind::nvlink}, passing}, path)) return as_peer(path, false);

  const bool same_host = topology_.nodes[from].host == topology_.nodes[to].host;
  if (same_host &&
      search(from, to, Allowed{topology_, {LinkKind::pcie, LinkKind::socket}, {NodeKind::pcie_switch, NodeKind::cpu}},
             path)) {
    std::vector<int> roots;
    for (const int link : path) {
      if (topology_.nodes[topology_.links[link].to].kind == NodeKind::cpu) roots.push_back(topology_.links[link].to);
    }
    const Reach needed = roots.empty()       ? Reach::within_switch
                         : roots.size() == 1 ? Reach::within_socket
                                             : Reach::everywhere;
    if (topology_.reach >= needed) return as_peer(path, !roots.empty());
    if (roots.empty()) {  // both hang on one switch, but must go up to the memory above it
      for (std::size_t node = 0; node < topology_.nodes.size() && roots.empty(); ++node) {
        Path up;
        if (topology_.nodes[node].kind == NodeKind::cpu && topology_.nodes[node].host == topology_.nodes[from].host &&
            search(from, static_cast<int>(node), Allowed{topology_, {LinkKind::pcie}, {NodeKind::pcie_switch}}, up)) {
          roots.push_back(static_cast<int>(node));
        }
      }
    }
    if (!roots.empty()) {
      const Allowed ways{topology_, {LinkKind::pcie, LinkKind::socket}, {NodeKind::pcie_switch, NodeKind::cpu}};
      Path there, back;
      for (const int link : outgoing_[roots[0]]) {
        const int memory = topology_.links[link].to;
        if (topology_.nodes[memory].kind == NodeKind::memory && search(from, roots[0], ways, there) &&
            search(roots[0], to, ways, back)) {
          return as_staged(there, back, memory);
        }
      }
    }
  }
  const std::vector<NodeKind> outside = {NodeKind::pcie_switch, NodeKind::cpu, NodeKind::nic, NodeKind::network};
  if (search(from, to, Allowed{topology_, {LinkKind::pcie, LinkKind::socket, LinkKind::network}, outside}, path)) {
    Route route = as_peer(path, false);
    route.transport = Transport::network;
    if (!topology_.gpudirect) route.latency_seconds += 2 * topology_.staging_latency;
    return route;
  }
  return {};
}

Topology without(const Topology& topology, const std::string& what) {
  if (what != "nvlink") throw harness::UsageError("'" + what + "' cannot be taken away; allowed: nvlink");
  Topology rest = topology;
  rest.in_switch_reduction = false;
  std::erase_if(rest.links,
                [&](const Link& link) { return topology.classes[link.link_class].kind == LinkKind::nvlink; });
  return rest;
}

Topology first_ranks(const Topology& topology, int count) {
  if (count < 1 || count > topology.size()) {
    throw harness::UsageError(topology.name + " has 1 to " + std::to_string(topology.size()) + " devices");
  }
  Topology part = topology;
  part.ranks.resize(count);
  return part;
}

Topology reordered(const Topology& topology, const std::vector<Rank>& order) {
  Topology result = topology;
  result.ranks.clear();
  for (const Rank rank : order) result.ranks.push_back(topology.ranks.at(rank));
  return result;
}

}  // namespace allreduce
