// SPDX-License-Identifier: Apache-2.0
#include "bench/described.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "allreduce/relabel.hpp"
#include "allreduce/simulate.hpp"
#include "allreduce/verify.hpp"
#include "bench/named_topology.hpp"
#include "harness/text.hpp"

namespace bench {

using harness::Kind;
using nlohmann::json;

namespace {

constexpr std::size_t most_listed_links = 64;
constexpr std::size_t most_proved_ops = 200'000;  // of a catalogue's schedule, which the tests prove anyway

// "2,0,1": a rank order of so many ranks.
std::vector<allreduce::Rank> parse_order(const std::string& text, int ranks) {
  std::vector<allreduce::Rank> order;
  std::set<std::int64_t> seen;
  for (const std::string& part : harness::split(text, ',')) {
    const auto rank = harness::parse_integer(part, 0, ranks - 1);
    if (!rank || !seen.insert(*rank).second) break;
    order.push_back(static_cast<int>(*rank));
  }
  if (static_cast<int>(order.size()) != ranks || seen.size() != order.size()) {
    throw harness::bad_value("rank-order", text,
                             "allowed: given, best, or every rank from 0 to " + std::to_string(ranks - 1) + " once");
  }
  return order;
}

json link_json(const allreduce::Topology& topology, const allreduce::LinkLoad& load) {
  const allreduce::Link& link = topology.links[load.link];
  const double rate = topology.rate(load.link, allreduce::Mover::copy_engine);
  return {{"from", topology.nodes[link.from].name},
          {"to", topology.nodes[link.to].name},
          {"kind", topology.classes[link.link_class].name},
          {"bytes", std::llround(load.bytes)},
          {"seconds", load.bytes / rate},
          {"utilisation", load.utilisation}};
}

}  // namespace

std::vector<harness::Option> topology_options() {
  return {{.name = "topology",
           .kind = Kind::names,
           .help = "machines of the simulated engine, or the one that measured rows are held against: dgx-a100, "
                   "dgx-h100*16, pcie4-8gpu:4, ring:8, auto, a file; allreduce/topologies/README.md lists them"},
          {.name = "without",
           .kind = Kind::names,
           .default_text = "none",
           .help = "what is taken away from them",
           .allowed = {"none", "nvlink"}},
          {.name = "rank-order",
           .kind = Kind::text,
           .default_text = "given",
           .help = "which device is which rank: given, best (for a ring), or a list such as 0,2,1,3; of GPUs and of "
                   "--topology"}};
}

std::vector<allreduce::Rank> rank_order(const std::string& text, const allreduce::Topology& machine) {
  if (text == "best") {
    allreduce::Router router(machine, allreduce::Mover::copy_engine);
    return allreduce::best_ring(router);
  }
  return parse_order(text, machine.size());
}

std::vector<Machine> described_machines(const harness::Options& options, const allreduce::Constants& constants) {
  std::vector<Machine> machines;
  const std::string order = options.text("rank-order");
  for (const std::string& name : options.names("topology")) {
    for (const std::string& missing : options.names("without")) {
      Machine machine{name,
                      missing == "none" ? json(nullptr) : json(missing),
                      "given",
                      connected_topology(name, missing, constants),
                      {}};
      if (order != "given") {
        const auto ranks = rank_order(order, machine.described);
        machine.described = allreduce::reordered(machine.described, ranks);
        machine.rank_order = ranks;
      }
      machine.bound = allreduce::bound(machine.described);
      machines.push_back(std::move(machine));
    }
  }
  return machines;
}

Forecaster::Forecaster(const Machine& machine, const allreduce::Constants& constants, const Schedules& schedules,
                       const allreduce::Shape& shape)
    : machine_(machine),
      constants_(constants),
      all_(schedules),
      shape_(shape),
      router_(machine.described, allreduce::Mover::copy_engine) {}

Forecast Forecaster::streams(const std::string& algorithm, const allreduce::Workload& workload) {
  auto known = schedules_.find(algorithm);
  if (known == schedules_.end()) {
    known = schedules_.emplace(algorithm, all_.build(algorithm, shape_)).first;
    if (known->second.ops.size() <= most_proved_ops) {
      const auto verdict = allreduce::verify(known->second);
      if (!verdict.proved) throw harness::Error(verdict.reason);
    }
  }
  // What was measured holds the costs of its software already.
  const auto costs = machine_.described.measured ? allreduce::StreamsCosts{} : constants_.streams();
  const auto timeline = allreduce::simulate(known->second, router_, workload, costs);
  json links = json::array();
  for (std::size_t at = 0; at < std::min(timeline.loads.size(), most_listed_links); ++at) {
    links.push_back(link_json(machine_.described, timeline.loads[at]));
  }
  return {timeline.seconds(),
          all_.busbw_is_link_speed(algorithm),
          {{"critical_path", timeline.reason},
           {"busiest_link", links.empty() ? json(nullptr) : links[0]},
           {"links", links}}};
}

Forecast Forecaster::nccl(std::size_t bytes, const allreduce::NcclSettings& settings) {
  if (!nccl_) nccl_.emplace(machine_.described, constants_);
  const auto forecast = nccl_->forecast(bytes, settings);
  return {forecast.seconds,
          forecast.algorithm.starts_with("ring"),
          {{"chosen", {{"algorithm", forecast.algorithm}, {"why", forecast.why}}}}};
}

}  // namespace bench
