// SPDX-License-Identifier: Apache-2.0
#include "allreduce/picture.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <sstream>

#include "harness/text.hpp"

namespace allreduce {

namespace {

// What nvidia-smi would say of two devices.
std::string distance(const Topology& topology, Router& router, Rank from, Rank to) {
  if (from == to) return " X ";
  const Route* route = router.find_between(from, to);
  if (!route) return "N/A";
  if (topology.kind(route->links[0]) == LinkKind::nvlink) {
    return "NV" + std::to_string(std::lround(std::max(1.0, topology.links[route->links[0]].count)));
  }
  int switches = 0;
  int roots = 0;
  for (const int link : route->links) {
    if (topology.kind(link) == LinkKind::network || topology.kind(link) == LinkKind::socket) return "SYS";
    const NodeKind kind = topology.nodes[topology.links[link].to].kind;
    switches += kind == NodeKind::pcie_switch;
    roots += kind == NodeKind::cpu;
  }
  if (roots > 0) return switches > 0 ? "NODE" : "PHB";
  return switches > 1 ? "PXB" : "PIX";
}

// Devices of one socket are numbered by it.
std::string numa_of(const Topology& topology, int node) {
  std::set<int> seen = {node};
  std::vector<int> queue = {node};
  for (std::size_t at = 0; at < queue.size(); ++at) {
    const Node& here = topology.nodes[queue[at]];
    if (here.kind == NodeKind::cpu) return here.name.substr(here.name.find("cpu") + 3);
    for (const Link& link : topology.links) {
      if (link.from == queue[at] && topology.classes[link.link_class].kind == LinkKind::pcie &&
          seen.insert(link.to).second) {
        queue.push_back(link.to);
      }
    }
  }
  return "N/A";
}

int depth(NodeKind kind) {
  switch (kind) {
    case NodeKind::network:
    case NodeKind::nvswitch: return 0;
    case NodeKind::gpu: return 1;
    case NodeKind::nic: return 2;
    case NodeKind::pcie_switch: return 3;
    case NodeKind::cpu: return 4;
    case NodeKind::memory: return 5;
  }
  return 5;
}

const char* colour(LinkKind kind) {
  switch (kind) {
    case LinkKind::nvlink: return "#2a9d4a";
    case LinkKind::pcie: return "#4470b8";
    case LinkKind::socket: return "#b8552f";
    case LinkKind::memory: return "#888888";
    case LinkKind::network: return "#8a4fb0";
  }
  return "#000000";
}

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '&') {
      result += "&amp;";
    } else if (c == '<') {
      result += "&lt;";
    } else if (c == '>') {
      result += "&gt;";
    } else {
      result += c;
    }
  }
  return result;
}

}  // namespace

std::string matrix_text(const Topology& topology) {
  Router router(topology, Mover::copy_engine);
  std::ostringstream text;
  for (Rank rank = 0; rank < topology.size(); ++rank) text << "\tGPU" << rank;
  text << "\tCPU Affinity\tNUMA Affinity\n";
  for (Rank from = 0; from < topology.size(); ++from) {
    text << "GPU" << from;
    for (Rank to = 0; to < topology.size(); ++to) text << '\t' << distance(topology, router, from, to);
    text << "\tN/A\t" << numa_of(topology, topology.ranks[from]) << '\n';
  }
  return text.str();
}

std::string tree_text(const Topology& topology) {
  std::ostringstream text;
  std::set<int> shown;
  // Down from the sockets over PCIe; then the links that are no part of that tree.
  const auto show = [&](const auto& self, int node, int indent, const std::string& by) -> void {
    if (!shown.insert(node).second) return;
    text << std::string(indent * 2, ' ') << topology.nodes[node].name << by << '\n';
    for (std::size_t link = 0; link < topology.links.size(); ++link) {
      const Link& found = topology.links[link];
      const LinkKind kind = topology.classes[found.link_class].kind;
      if (found.from != node || (kind != LinkKind::pcie && kind != LinkKind::memory)) continue;
      const std::string described = topology.describe(static_cast<int>(link));
      self(self, found.to, indent + 1, described.substr(described.rfind(" (")));
    }
  };
  for (std::size_t node = 0; node < topology.nodes.size(); ++node) {
    if (topology.nodes[node].kind == NodeKind::cpu) show(show, static_cast<int>(node), 0, "");
  }
  std::set<std::pair<int, int>> told;
  for (std::size_t link = 0; link < topology.links.size(); ++link) {
    const Link& found = topology.links[link];
    const LinkKind kind = topology.classes[found.link_class].kind;
    if (kind == LinkKind::pcie || kind == LinkKind::memory || told.contains({found.to, found.from})) continue;
    told.insert({found.from, found.to});
    text << topology.describe(static_cast<int>(link)) << ": "
         << harness::format_bandwidth(topology.rate(static_cast<int>(link), Mover::copy_engine)) << " by copy engines, "
         << harness::format_bandwidth(topology.rate(static_cast<int>(link), Mover::kernel)) << " by kernels\n";
  }
  return text.str();
}

std::string svg_text(const Topology& topology, const Bound& bound) {
  constexpr double width_of_box = 78;
  constexpr double height_of_row = 96;
  constexpr double margin = 46;
  std::map<int, std::vector<int>> rows;
  for (std::size_t node = 0; node < topology.nodes.size(); ++node) {
    rows[depth(topology.nodes[node].kind)].push_back(static_cast<int>(node));
  }
  std::size_t widest = 1;
  for (const auto& [_, nodes] : rows) widest = std::max(widest, nodes.size());
  const double width = 2 * margin + static_cast<double>(widest) * (width_of_box + 14);
  std::vector<std::pair<double, double>> place(topology.nodes.size());
  double y = margin + 30;
  for (const auto& [row, nodes] : rows) {
    if (row == 1) y += 60;  // room for the arcs of direct NVLinks
    for (std::size_t at = 0; at < nodes.size(); ++at) {
      const double step = (width - 2 * margin) / static_cast<double>(nodes.size());
      place[nodes[at]] = {margin + step * (static_cast<double>(at) + 0.5), y};
    }
    y += height_of_row;
  }
  const double height = y + 50;
  std::map<Rank, std::size_t> group_of;
  for (std::size_t group = 0; group < bound.groups.size(); ++group) {
    for (const Rank rank : bound.groups[group]) group_of[rank] = group;
  }
  std::ostringstream svg;
  svg << "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " << width << ' ' << height
      << "\" font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
      << "<text x=\"" << margin << "\" y=\"24\" font-size=\"15\">" << escaped(topology.name + ": " + topology.about)
      << "</text>\n";
  std::set<std::tuple<int, int, int>> drawn;
  std::set<LinkKind> kinds;
  for (std::size_t at = 0; at < topology.links.size(); ++at) {
    const Link& link = topology.links[at];
    if (drawn.contains({link.to, link.from, link.link_class})) continue;
    drawn.insert({link.from, link.to, link.link_class});
    const LinkKind kind = topology.classes[link.link_class].kind;
    kinds.insert(kind);
    const auto [x1, y1] = place[link.from];
    const auto [x2, y2] = place[link.to];
    const double rate = topology.rate(static_cast<int>(at), Mover::copy_engine);
    svg << "<path fill=\"none\" stroke=\"" << colour(kind) << "\" stroke-width=\""
        << std::clamp(std::sqrt(rate / 1e10), 1.0, 7.0) << "\" d=\"M " << x1 << ' ' << y1;
    if (y1 == y2) {
      svg << " Q " << (x1 + x2) / 2 << ' ' << y1 - std::min(120.0, 30 + std::abs(x2 - x1) * 0.35) << ' ';
    } else {
      svg << " L ";
    }
    svg << x2 << ' ' << y2 << "\"><title>" << escaped(topology.describe(static_cast<int>(at))) << ", "
        << harness::format_bandwidth(rate) << "</title></path>\n";
  }
  static constexpr const char* fills[] = {"#cfe8ff", "#ffe2c2", "#d8f2d0", "#f5d3e6",
                                          "#e6e0ff", "#fff3b0", "#d0f0ee", "#e8e8e8"};
  std::map<int, Rank> rank_of;
  for (Rank rank = 0; rank < topology.size(); ++rank) rank_of[topology.ranks[rank]] = rank;
  for (std::size_t node = 0; node < topology.nodes.size(); ++node) {
    const auto [x, box_y] = place[node];
    const auto rank = rank_of.find(static_cast<int>(node));
    const char* fill = rank == rank_of.end() ? "#f4f4f4" : fills[group_of[rank->second] % std::size(fills)];
    svg << "<rect x=\"" << x - width_of_box / 2 << "\" y=\"" << box_y - 13 << "\" width=\"" << width_of_box
        << "\" height=\"26\" rx=\"5\" fill=\"" << fill << "\" stroke=\"#444\"/><text x=\"" << x << "\" y=\""
        << box_y + 4 << "\" text-anchor=\"middle\">" << escaped(topology.nodes[node].name) << "</text>\n";
  }
  static constexpr const char* names[] = {"NVLink", "PCIe", "between sockets", "memory", "network"};
  double x = margin;
  for (const LinkKind kind : kinds) {
    svg << "<rect x=\"" << x << "\" y=\"" << height - 26 << "\" width=\"18\" height=\"6\" fill=\"" << colour(kind)
        << "\"/><text x=\"" << x + 24 << "\" y=\"" << height - 19 << "\">" << names[static_cast<int>(kind)]
        << "</text>\n";
    x += 130;
  }
  svg << "<text x=\"" << margin << "\" y=\"" << height - 38
      << "\">devices of one colour are one group of the cut that bounds an all-reduce</text>\n</svg>\n";
  return svg.str();
}

}  // namespace allreduce
