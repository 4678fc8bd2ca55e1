// SPDX-License-Identifier: Apache-2.0
#include "allreduce/topologies.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <set>

#include "allreduce/parsers/machine.hpp"
#include "allreduce/topology_files.hpp"
#include "harness/error.hpp"
#include "harness/file.hpp"
#include "harness/json.hpp"
#include "harness/text.hpp"

namespace allreduce {

using harness::UsageError;
using nlohmann::json;

namespace {

constexpr std::size_t most_links = 1 << 20;
constexpr std::uintmax_t largest_file = 16U << 20U;

// Of a topology's file; null for other names.
const char* file_text(std::string_view name) {
  for (const TopologyFile& file : topology_files()) {
    if (file.name == name && name != "constants" && name != "published") return file.text;
  }
  return nullptr;
}

NodeKind kind_of(const std::string& node) {
  static constexpr std::pair<const char*, NodeKind> kinds[] = {
      {"gpu", NodeKind::gpu}, {"switch", NodeKind::pcie_switch}, {"cpu", NodeKind::cpu},
      {"nic", NodeKind::nic}, {"net", NodeKind::network},        {"nvswitch", NodeKind::nvswitch}};
  const std::string word = node.substr(0, node.find_first_of("0123456789"));
  for (const auto& [name, kind] : kinds) {
    if (word == name) return kind;
  }
  throw UsageError("'" + node + "' is no node; allowed: gpu0, switch0, cpu0, nvswitch, nic0, net");
}

Reach reach_of(const std::string& text) {
  if (text == "none") return Reach::none;
  if (text == "within_switch") return Reach::within_switch;
  if (text == "within_socket") return Reach::within_socket;
  if (text == "everywhere") return Reach::everywhere;
  throw UsageError("reach '" + text + "' is unknown; allowed: none, within_switch, within_socket, everywhere");
}

// "gpu0-3" is four nodes.
std::vector<std::string> expand(const std::string& text) {
  const auto dash = text.find('-');
  const auto digits = text.find_first_of("0123456789");
  if (dash == std::string::npos || digits == std::string::npos) return {text};
  const auto first = harness::parse_integer(text.substr(digits, dash - digits), 0, 100000);
  const auto last = harness::parse_integer(text.substr(dash + 1), 0, 100000);
  if (!first || !last || *first > *last) throw UsageError("'" + text + "' is no range of nodes such as gpu0-3");
  std::vector<std::string> names;
  for (auto at = *first; at <= *last; ++at) names.push_back(text.substr(0, digits) + std::to_string(at));
  return names;
}

double number(const json& value) { return harness::real_number(value.is_array() ? value.at(0) : value); }

LinkClass class_from_json(const json& values, const std::string& name) {
  static constexpr std::pair<const char*, LinkKind> kinds[] = {{"nvlink", LinkKind::nvlink},
                                                               {"pcie", LinkKind::pcie},
                                                               {"socket", LinkKind::socket},
                                                               {"memory", LinkKind::memory},
                                                               {"network", LinkKind::network}};
  LinkClass result{.name = name};
  bool known = false;
  for (const auto& [word, kind] : kinds) {
    if (values.at("kind") != word) continue;
    result.kind = kind;
    known = true;
  }
  if (!known) throw UsageError("link class " + name + " has an unknown kind");
  const auto rate = [&](const char* key, const char* otherwise, double nothing) {
    if (values.contains(key)) return number(values[key]);
    return otherwise && values.contains(otherwise) ? number(values[otherwise]) : nothing;
  };
  constexpr auto engine = static_cast<int>(Mover::copy_engine);
  constexpr auto kernel = static_cast<int>(Mover::kernel);
  result.rate[engine] = rate("copy_engine", "rate", 0);
  result.rate[kernel] = rate("kernel", "rate", 0);
  result.staged[engine] = rate("copy_engine_staged", nullptr, 0);
  result.staged[kernel] = rate("kernel_staged", nullptr, 0);
  result.both[engine] = rate("copy_engine_both_ways", nullptr, 0);
  result.both_staged[engine] = rate("copy_engine_both_ways_staged", nullptr, 0);
  result.latency_seconds = rate("latency", nullptr, 0);
  if (!(result.rate[engine] > 0) || !(result.rate[kernel] > 0) || result.latency_seconds < 0) {
    throw UsageError("link class " + name + " needs a rate above 0 and no negative latency");
  }
  return result;
}

// The family that a text names, or nothing: "ring:8", "mesh:4x4", "torus:4x4", "full:8", "switch:8", "fat-tree:4x8".
std::optional<Topology> find_family(const std::string& text, const Constants& constants) {
  const auto colon = text.find(':');
  const std::string family = text.substr(0, colon);
  const std::set<std::string> families = {"ring", "mesh", "torus", "full", "switch", "fat-tree"};
  if (colon == std::string::npos || !families.contains(family)) return {};
  const auto parts = harness::split(text.substr(colon + 1), '@');
  std::vector<int> sizes;
  for (const auto& part : harness::split(parts[0], 'x')) {
    const auto size = harness::parse_integer(part, 1, 1 << 20);
    if (!size) throw UsageError("'" + part + "' is no size; allowed: ring:8, mesh:4x4, fat-tree:4x8, switch:8@pcie4");
    sizes.push_back(static_cast<int>(*size));
  }
  const bool grid = family == "mesh" || family == "torus";
  const std::size_t most = family == "fat-tree" ? 3 : grid ? 2 : 1;
  const std::size_t least = grid || family == "fat-tree" ? 2 : 1;
  if (sizes.size() < least || sizes.size() > most || parts.size() > 2) {
    throw UsageError(family + " takes " + std::to_string(least) + " to " + std::to_string(most) +
                     " sizes with x between, and one link class after @");
  }
  const std::size_t devices = sizes.size() == 1 ? sizes[0] : std::size_t(sizes[0]) * sizes[1];
  if (devices > (1U << 17U) || (family == "full" && devices > 1024)) {
    throw UsageError("that is " + std::to_string(devices) + " devices, and too many");
  }
  Topology topology;
  topology.name = text;
  topology.about = "by formula";
  topology.forwards = true;
  LinkClass link_class = constants.link_class(parts.size() == 2 ? parts[1] : "unit");
  link_class.kind = LinkKind::nvlink;  // what devices reach each other over, whatever it is made of
  const int links = topology.add_class(link_class);
  for (std::size_t rank = 0; rank < devices; ++rank) {
    topology.ranks.push_back(topology.add_node("gpu" + std::to_string(rank), NodeKind::gpu));
  }
  const int count = static_cast<int>(devices);
  if (family == "ring") {
    for (int rank = 0; rank < count && count > 1; ++rank) {
      if (count > 2 || rank == 0) topology.join(rank, (rank + 1) % count, links);
    }
  } else if (family == "full") {
    for (int one = 0; one < count; ++one) {
      for (int other = one + 1; other < count; ++other) topology.join(one, other, links);
    }
  } else if (grid) {
    const int rows = sizes[0];
    const int columns = sizes[1];
    for (int row = 0; row < rows; ++row) {
      for (int column = 0; column < columns; ++column) {
        const int here = row * columns + column;
        const auto next = [&](int at, int size) { return at + 1 < size || (family == "torus" && size > 2); };
        if (next(column, columns)) topology.join(here, row * columns + (column + 1) % columns, links);
        if (next(row, rows)) topology.join(here, (row + 1) % rows * columns + column, links);
      }
    }
  } else {
    const int leaves = family == "switch" ? 1 : sizes[0];
    const int each = count / leaves;
    const double wide = sizes.size() == 3 ? static_cast<double>(each) / sizes[2] : each;
    const int top = leaves > 1 ? topology.add_node("spine", NodeKind::nvswitch) : -1;
    for (int leaf = 0; leaf < leaves; ++leaf) {
      const int node = topology.add_node("leaf" + std::to_string(leaf), NodeKind::nvswitch);
      for (int rank = leaf * each; rank < (leaf + 1) * each; ++rank) topology.join(rank, node, links);
      if (top >= 0) topology.join(node, top, links, wide);
    }
  }
  return topology;
}

}  // namespace

Constants::Constants() : Constants(json::parse(embedded_file("constants"))) {}
Constants::Constants(json values) : values_(std::move(values)) {}

double Constants::operator()(const std::string& section, const std::string& name, const std::string& constant) const {
  try {
    return number(values_.at(section).at(name).at(constant));
  } catch (const json::exception&) {
    throw harness::Error("there is no constant " + section + "." + name + "." + constant);
  }
}

LinkClass Constants::link_class(const std::string& name) const {
  for (const char* section : {"links", "fabrics"}) {
    if (values_.at(section).contains(name)) return class_from_json(values_.at(section).at(name), name);
  }
  std::vector<std::string> names;
  for (const char* section : {"links", "fabrics"}) {
    for (const auto& [known, _] : values_.at(section).items()) names.push_back(known);
  }
  throw UsageError("link class '" + name + "' is unknown; allowed: " + harness::join(names, ", "));
}

StreamsCosts Constants::streams() const {
  const auto cost = [&](const char* name) { return (*this)("software", "streams", name); };
  return {cost("issue_copy"), cost("issue_staged_copy"), cost("issue_reduce"),
          cost("issue_wait"), cost("start_copy"),        cost("start_reduce"),
          cost("wait"),       cost("graph_launch"),      cost("graph_node")};
}

std::vector<std::string> topology_names() {
  std::vector<std::string> names;
  for (const TopologyFile& file : topology_files()) {
    if (file_text(file.name)) names.emplace_back(file.name);
  }
  std::ranges::sort(names);
  return names;
}

Topology topology_from_json(const json& text, const std::string& name, int hosts, const Constants& constants) {
  try {
    static const std::set<std::string> fields = {"about",     "sources", "gpus",  "generation", "memory",
                                                 "host",      "reach",   "links", "classes",    "in_switch_reduction",
                                                 "gpudirect", "measured"};
    for (const auto& [field, _] : text.items()) {
      if (!fields.contains(field)) throw UsageError("field '" + field + "' is unknown");
    }
    Topology topology;
    topology.name = name;
    topology.hosts = hosts;
    topology.about = text.value("about", "");
    topology.reach = reach_of(text.value("reach", "everywhere"));
    topology.in_switch_reduction = text.value("in_switch_reduction", false);
    topology.gpudirect = text.value("gpudirect", true);
    topology.measured = text.value("measured", false);
    topology.generation = text.value("generation", "");
    const json& own = text.value("classes", json::object());
    const auto class_of = [&](const std::string& wanted) {
      return topology.add_class(own.contains(wanted) ? class_from_json(own[wanted], wanted)
                                                     : constants.link_class(wanted));
    };
    if (text.contains("memory")) topology.memory_rate = topology.classes[class_of(text["memory"])].rate[0];
    int host_memory = -1;
    if (text.contains("host")) {
      const std::string host = text["host"];
      if (!constants.values().at("hosts").contains(host)) throw UsageError("host '" + host + "' is unknown");
      host_memory = class_of(constants.values()["hosts"][host].at("memory"));
      topology.launch_seconds = constants("hosts", host, "launch");
      topology.root_overhead = constants("hosts", host, "root_overhead");
      topology.staging_latency = constants("hosts", host, "staging_latency");
    }
    int gpus = 0;
    try {
      gpus = static_cast<int>(harness::whole_number(text.at("gpus"), 1, std::min(4096, (1 << 17) / hosts)));
    } catch (const UsageError& error) {
      throw UsageError(std::string("gpus: ") + error.what());
    }
    int network = -1;
    for (int host = 0; host < hosts; ++host) {
      const std::string prefix = hosts == 1 ? "" : "host" + std::to_string(host) + ".";
      std::map<std::string, int> nodes;
      const auto node_of = [&](const std::string& wanted) {
        const NodeKind kind = kind_of(wanted);
        if (kind == NodeKind::network) {
          if (network < 0) network = topology.add_node("net", kind, -1);
          return network;
        }
        const auto [at, fresh] = nodes.try_emplace(wanted, 0);
        if (!fresh) return at->second;
        if (kind == NodeKind::gpu) throw UsageError(wanted + " is beyond the " + std::to_string(gpus) + " gpus");
        at->second = topology.add_node(prefix + wanted, kind, host);
        if (kind == NodeKind::cpu && host_memory >= 0) {
          const int memory = topology.add_node(prefix + "memory" + wanted.substr(3), NodeKind::memory, host);
          topology.join(at->second, memory, host_memory);
        }
        return at->second;
      };
      for (int gpu = 0; gpu < gpus; ++gpu) {
        const std::string node = "gpu" + std::to_string(gpu);
        nodes[node] = topology.add_node(prefix + node, NodeKind::gpu, host);
        topology.ranks.push_back(nodes[node]);
      }
      for (const json& link : text.at("links")) {
        const bool list = link.is_array();
        const std::string from = list ? link.at(0) : link.at("from");
        const std::string to = list ? link.at(1) : link.at("to");
        const std::string link_class = list ? link.at(2) : link.at("class");
        const double count =
            harness::real_number(list ? (link.size() > 3 ? link.at(3) : json(1)) : link.value("count", json(1)));
        if (!(count > 0)) throw UsageError("the link from " + from + " to " + to + " has no positive count");
        if (hosts == 1 && (from.starts_with("nic") || to.starts_with("nic"))) continue;
        const auto ones = expand(from);
        const auto others = expand(to);
        if (ones.size() * others.size() > most_links - topology.links.size() / 2) {
          throw UsageError("it has more than " + std::to_string(most_links) + " links");
        }
        for (const auto& one : ones) {
          for (const auto& other : others) {
            const int links = class_of(link_class);
            if (!list && link.value("one_way", false)) {
              topology.add_link(node_of(one), node_of(other), links, count);
            } else {
              topology.join(node_of(one), node_of(other), links, count);
            }
          }
        }
      }
    }
    if (hosts > 1 && network < 0) throw UsageError("it has no network card to join several of it");
    return topology;
  } catch (const json::exception& error) {
    throw UsageError(std::string("not a topology in our JSON: ") + error.what());
  }
}

Topology parse_topology(const std::string& text, const std::string& name, const Constants& constants) {
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) throw UsageError("that file is empty");
  if (text[first] == '{') {
    return topology_from_json(harness::parse_json(text), name, 1, constants);
  }
  if (text[first] == '<') return topology_from_json(read_nccl_xml(text), name, 1, constants);
  if (text.find("GPU0") != std::string::npos) return topology_from_json(read_nvidia_smi(text), name, 1, constants);
  throw UsageError("in no form that is known; allowed: our JSON, nvidia-smi topo -m, NCCL's topology XML");
}

namespace {

// What nvidia-smi says of this machine, as one would paste it.
std::string ask_nvidia_smi() {
  const auto close = [](std::FILE* pipe) { pclose(pipe); };
  const std::unique_ptr<std::FILE, decltype(close)> pipe(
      popen("{ nvidia-smi -L; nvidia-smi topo -m; nvidia-smi topo -p2p r; } 2>/dev/null", "r"), close);
  std::string text;
  char buffer[4096];
  while (pipe) {
    const std::size_t bytes = std::fread(buffer, 1, sizeof buffer, pipe.get());
    if (bytes == 0) break;
    text.append(buffer, bytes);
  }
  return text;
}

}  // namespace

Topology find_topology(const std::string& text, const Constants& constants) {
  if (text == "auto") {
    const std::string told = ask_nvidia_smi();
    if (told.find("GPU0") == std::string::npos) throw UsageError("nvidia-smi finds no GPU on this machine");
    return parse_topology(told, "auto", constants);
  }
  if (auto family = find_family(text, constants)) return *family;
  const auto star = text.rfind('*');
  const auto colon = text.rfind(':');
  const auto cut = std::min(star, colon);
  const std::string name = text.substr(0, cut);
  std::optional<std::int64_t> size;
  if (cut != std::string::npos && file_text(name)) {
    size = harness::parse_integer(text.substr(cut + 1), 1, 1 << 17);
    if (!size) {
      throw UsageError(std::string("after ") + text[cut] + " belongs a number of " +
                       (cut == star ? "machines" : "devices"));
    }
  }
  if (const char* file = file_text(name)) {
    const int hosts = size && cut == star ? static_cast<int>(*size) : 1;
    Topology topology = topology_from_json(json::parse(file), text, hosts, constants);
    return size && cut == colon ? first_ranks(topology, static_cast<int>(*size)) : topology;
  }
  std::error_code problem;
  if (std::filesystem::exists(text, problem)) {
    return parse_topology(harness::read_file(text, largest_file), std::filesystem::path(text).stem().string(),
                          constants);
  }
  throw UsageError("neither a topology nor a file; allowed: " + harness::join(topology_names(), ", ") +
                   ", ring:8, mesh:4x4, torus:4x4, full:8, switch:8, fat-tree:4x8, auto, or a file");
}

}  // namespace allreduce
