// SPDX-License-Identifier: Apache-2.0
// A machine as a graph: devices, switches, root complexes, memories and network cards, joined by one-way links with a
// rate and a latency. It says which way a vector goes from one rank to another, and what no all-reduce can beat. The
// numbers come with their sources from topologies/constants.json; what a machine's own file holds is only its wiring.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "allreduce/schedule.hpp"

namespace allreduce {

enum class NodeKind { gpu, pcie_switch, cpu, memory, nvswitch, nic, network };
enum class LinkKind { nvlink, pcie, socket, memory, network };

// Who moves the bytes: a device's copy engine, or a kernel that reads or writes its peer. Their packets differ in size,
// hence their share of a link's raw rate.
enum class Mover { copy_engine, kernel };

// How a vector gets from one device to another.
enum class Transport { peer, staged, network };

// Bytes per second of one such link in one direction, by mover; `staged` is what is left of it for a copy that goes
// through host memory because the devices cannot reach each other, `both` what the two directions carry together where
// that is less than twice as much. 0: no such limit.
struct LinkClass {
  std::string name = {};
  LinkKind kind = LinkKind::pcie;
  double rate[2] = {0, 0};
  double staged[2] = {0, 0};
  double both[2] = {0, 0};
  double both_staged[2] = {0, 0};
  double latency_seconds = 0;
};

struct Node {
  std::string name;
  NodeKind kind;
  int host = 0;
};

// `count` links of a class side by side, from one node to another.
struct Link {
  int from, to;
  int link_class;
  double count = 1;
};

// How far a device may reach into another over PCIe; what lies beyond is staged through host memory.
enum class Reach { none, within_switch, within_socket, everywhere };

// The links on the way, and what it shares with others: resources of the router, with the bytes that each must carry
// for one byte that arrives. The first resources are the links.
struct Route {
  Transport transport = Transport::peer;
  std::vector<int> links = {};
  std::vector<int> resources = {};
  std::vector<double> weights = {};
  double latency_seconds = 0;
};

class Topology {
 public:
  std::string name = {}, about = {};
  std::vector<LinkClass> classes = {};
  std::vector<Node> nodes = {};
  std::vector<Link> links = {};
  std::vector<int> ranks = {};  // the node of each rank
  Reach reach = Reach::everywhere;
  bool forwards = false;             // devices pass on what is not for them, as in a torus
  bool in_switch_reduction = false;  // the NVSwitch adds (NVLink SHARP)
  bool gpudirect = true;             // network cards read and write device memory themselves
  bool measured = false;             // its latencies were measured, and hold the costs of the software already
  int hosts = 1;
  std::string generation = {};  // of the devices: "ampere"; empty where none is known
  double memory_rate = 0;       // bytes per second of a device's own memory, reads and writes together
  double launch_seconds = 0;    // of one kernel, on the host
  double root_overhead = 1;     // bytes on the wire for one byte of a peer copy through a root complex
  double staging_latency = 0;   // of a copy through host memory

  int size() const { return static_cast<int>(ranks.size()); }
  int add_node(std::string name, NodeKind kind, int host = 0);
  int add_class(LinkClass link_class);                                // or the one of that name
  void add_link(int from, int to, int link_class, double count = 1);  // one way
  void join(int one, int other, int link_class, double count = 1);    // both ways

  double rate(int link, Mover mover) const {
    return classes[links[link].link_class].rate[static_cast<int>(mover)] * links[link].count;
  }
  LinkKind kind(int link) const { return classes[links[link].link_class].kind; }
  std::string describe(int link) const;  // "gpu0 > nvswitch (nvlink4 x18)"
};

// Finds ways, and remembers them. A resource is a link, or, numbered after the links, the two directions of one
// together.
class Router {
 public:
  Router(const Topology& topology, Mover mover);
  const Topology& topology() const { return topology_; }
  const std::vector<double>& capacities() const { return capacities_; }  // of the resources, bytes per second
  int link_of(int resource) const { return resource % static_cast<int>(topology_.links.size()); }
  const Route& between(Rank from, Rank to);       // throws harness::Error where there is no way
  const Route* find_between(Rank from, Rank to);  // null where there is none

 private:
  using Path = std::vector<int>;  // links
  template <typename Allowed>
  bool search(int from, int to, const Allowed& allowed, Path& path);
  std::optional<Route> find(int from, int to);
  Route as_peer(const Path& path, bool through_root) const;
  Route as_staged(const Path& there, const Path& back, int memory) const;
  void share(Route& route) const;

  const Topology& topology_;
  Mover mover_;
  std::vector<std::vector<int>> outgoing_, incoming_;  // links of each node
  std::vector<double> capacities_;
  std::vector<int> direction_pair_;  // of a link: the resource that its two directions share, or -1
  std::map<std::pair<Rank, Rank>, std::optional<Route>> known_;
  // A search from both ends: for each node the link that led there, and in which search that was.
  std::vector<int> seen_[2], led_by_[2];
  int searches_ = 0;
};

// The nodes' links without those of a kind: "nvlink" takes away NVLinks and NVSwitches. Throws UsageError for other
// names.
Topology without(const Topology& topology, const std::string& what);

// The first `count` devices of it.
Topology first_ranks(const Topology& topology, int count);

// Ranks in another order: rank i of the result is rank order[i] of the topology.
Topology reordered(const Topology& topology, const std::vector<Rank>& order);

}  // namespace allreduce
