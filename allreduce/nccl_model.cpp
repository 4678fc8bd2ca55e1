// SPDX-License-Identifier: Apache-2.0
#include "allreduce/nccl_model.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "allreduce/relabel.hpp"
#include "harness/error.hpp"

namespace allreduce {

namespace {

// NCCL has constants for some generations; the others take those of the one before.
std::string generation_of(const std::string& generation) {
  if (generation == "hopper" || generation == "blackwell") return generation;
  return generation == "ampere" || generation == "ada" ? "ampere" : "volta";
}

}  // namespace

namespace {

// Ring by ring over NVLinks until what is left joins the devices no more: each as wide as its narrowest hop, or,
// `thin`, one link wide, which sometimes leaves more behind for the next.
NcclRings rings_over_nvlinks(const Topology& topology, bool thin) {
  NcclRings rings;
  Topology left = topology;
  std::erase_if(left.links,
                [&](const Link& link) { return topology.classes[link.link_class].kind != LinkKind::nvlink; });
  while (true) {
    Router router(left, Mover::kernel);
    const auto order = best_ring(router);
    double rate = order.empty() ? 0 : ring_rate(router, order);
    if (rate <= 0) return rings;
    const auto of_one = [&](int link) { return left.rate(link, Mover::kernel) / left.links[link].count; };
    std::vector<double> hops(left.links.size());
    for (std::size_t at = 0; at < order.size(); ++at) {
      const Route& route = router.between(order[at], order[(at + 1) % order.size()]);
      for (const int link : route.links) ++hops[link];
      if (thin && route.links.size() == 1) rate = std::min(rate, of_one(route.links[0]));
    }
    for (std::size_t link = 0; link < hops.size(); ++link) {
      left.links[link].count -= hops[link] * rate / of_one(static_cast<int>(link));
    }
    std::erase_if(left.links, [](const Link& link) { return link.count < 1e-6; });
    rings.orders.push_back(order);
    rings.rate += rate;
    rings.over_nvlink = true;
  }
}

}  // namespace

NcclRings nccl_rings(const Topology& topology) {
  if (topology.size() < 2) return {};
  NcclRings wide = rings_over_nvlinks(topology, false);
  NcclRings thin = rings_over_nvlinks(topology, true);
  if (wide.over_nvlink) return thin.rate > wide.rate ? thin : wide;
  Router router(topology, Mover::kernel);
  NcclRings rings{{best_ring(router)}, 0, false};
  if (rings.orders[0].empty()) throw harness::Error(topology.name + ": no ring joins its devices");
  rings.rate = ring_rate(router, rings.orders[0]);
  return rings;
}

NcclModel::NcclModel(const Topology& topology, const Constants& constants)
    : constants_(constants),
      ranks_(topology.size()),
      hosts_(topology.hosts),
      rings_(nccl_rings(first_ranks(topology, std::max(1, topology.size() / topology.hosts)))),
      generation_(generation_of(topology.generation)),
      launch_seconds_(topology.launch_seconds),
      in_switch_reduction_(topology.in_switch_reduction) {
  double latency = 0;
  for (std::size_t link = 0; link < topology.links.size(); ++link) {
    const Link& found = topology.links[link];
    if (topology.nodes[found.to].kind != NodeKind::network || topology.nodes[found.from].host != 0) continue;
    network_rate_ += topology.rate(static_cast<int>(link), Mover::kernel);
    latency = topology.classes[found.link_class].latency_seconds;
  }
  if (hosts_ > 1) {
    const double in_constants = 2 * constants.link_class("ib-edr").latency_seconds;
    fabric_seconds_ = std::max(0.0, 2 * latency - in_constants);
    if (!topology.gpudirect) fabric_seconds_ += 2 * topology.staging_latency;
  }
}

// How often a vector of the Simple protocol pays for its steps: once, and once a doubling while the pipeline fills.
double NcclModel::fills(double bytes) const {
  return std::clamp(std::log2(bytes / constant("fill_from")), 1.0, constant("fill_doublings"));
}

// Bus bandwidth, as NCCL counts it; 0 where the protocol is not used.
double NcclModel::protocol_rate(const std::string& algorithm, const std::string& protocol) const {
  double rate = wire_rate();
  if (algorithm == "tree") rate *= constant("tree_share");
  if (protocol == "ll") return std::min(rate * constant("ll_share"), ll_most());
  if (protocol == "ll128") {
    if (!rings_.over_nvlink) return 0;  // NCCL trusts 128-byte stores over NVLink only
    return rate * constant(algorithm == "tree" && hosts_ == 1 ? "tree_ll128_share" : "ll128_share");
  }
  return rate;
}

// Word by word, a step forwards what has arrived: only the longer of steps and bytes shows where the wire is the limit.
// Where the threads are, each waits for its words one after another, and both add up.
double NcclModel::overlapped(const std::string& protocol, double latency, double moving) const {
  const bool threads = protocol == "ll" && ll_most() < wire_rate() * constant("ll_share");
  return threads ? latency + moving : std::max(latency, moving);
}

double NcclModel::wire_rate() const { return hosts_ > 1 ? std::min(rings_.rate, network_rate_) : rings_.rate; }

double NcclModel::ll_most() const {
  return constant((hosts_ == 1 ? "ll_most_" : hosts_ == 2 ? "ll_most_two_hosts_" : "ll_most_hosts_") + generation_);
}

std::optional<NcclModel::Way> NcclModel::ring(const std::string& protocol, double bytes) const {
  const double rate = protocol_rate("ring", protocol);
  if (rate <= 0) return {};
  const double steps = 2.0 * (ranks_ - 1);
  const double moving = bytes * steps / ranks_ / rate;
  const std::string wire = rings_.over_nvlink ? "nvlink" : "pcie";
  double intra = constant(wire + "_ring_" + protocol);
  if (hosts_ > 1 && protocol == "ll") intra *= constant("ll_hosts");
  const double inter = constant("network_ring_" + protocol);
  const double base = constant("base_ring_" + protocol);
  const double planned_crossings = 2.0 * (hosts_ - 1);
  // A chunk goes around almost twice, and each time over the network once a host.
  const double crossings = hosts_ > 1 ? 2.0 * hosts_ : 0;
  double planned = (steps - planned_crossings) * intra + planned_crossings * inter;
  double latency = (steps - crossings) * intra + crossings * (inter + fabric_seconds_);
  if (protocol != "simple")
    return Way{"ring", protocol, base + planned + moving, base + overlapped(protocol, latency, moving)};
  if (hosts_ > 1) {
    planned *= constant("plateau");
    latency *= constant("plateau");
  }
  return Way{"ring", protocol, base + planned + moving, base + latency * fills(bytes) + moving};
}

std::optional<NcclModel::Way> NcclModel::tree(const std::string& protocol, double bytes) const {
  const double rate = protocol_rate("tree", protocol) / 2;
  if (rate <= 0) return {};
  const std::string wire = rings_.over_nvlink ? "nvlink" : "pcie";
  double intra = constant(wire + "_tree_" + protocol);
  if (hosts_ > 1 && protocol == "ll") intra *= constant("ll_hosts");
  const double inter = constant("network_tree_" + protocol);
  const double base = constant("base_tree_" + protocol);
  const double within = 2.0 * (ranks_ / hosts_ - 1) * intra;
  const double across = 2.0 * std::floor(std::log2(hosts_));
  const double moving = bytes / rate;
  const double latency = within + across * (inter + fabric_seconds_);
  const double planned = base + within + across * inter + moving;
  if (protocol != "simple") return Way{"tree", protocol, planned, base + overlapped(protocol, latency, moving)};
  return Way{"tree", protocol, planned, base + latency * fills(bytes) + moving};
}

// A device sends its vector once and gets the sum once; the n+1 reads of the switch leave it 2(n-1)/(n+1) of the link.
std::optional<NcclModel::Way> NcclModel::nvls(double bytes) const {
  if (!in_switch_reduction_ || !rings_.over_nvlink || (generation_ != "hopper" && generation_ != "blackwell"))
    return {};
  const double each = ranks_ / hosts_;
  if (each < 2) return {};
  double rate = constant("nvls_share_" + generation_) * rings_.rate * each / (each + 1);
  double latency = constant("nvls");
  double planned = latency;
  if (hosts_ > 1) {
    const double levels = std::ceil(std::log2(hosts_));
    planned += 2 * levels * constant("network_nvls_tree");
    latency += 2 * levels * std::max(constant("network_nvls_tree"), fabric_seconds_);
    rate = std::min(rate, hosts_ == 2 ? network_rate_ : network_rate_ / 2);
  }
  return Way{hosts_ > 1 ? "nvls_tree" : "nvls", "simple", planned + bytes / rate,
             latency * fills(bytes) + bytes / rate};
}

NcclForecast NcclModel::forecast(std::size_t bytes, const NcclSettings& settings) const {
  const auto size = static_cast<double>(bytes);
  const double launch = settings.one_process ? ranks_ * launch_seconds_ : 0;
  if (ranks_ == 1) return {launch, "none", "one device"};
  std::vector<Way> ways;
  const auto add = [&](const std::optional<Way>& way) {
    if (way && (settings.algorithm.empty() || settings.algorithm == way->algorithm)) ways.push_back(*way);
  };
  for (const char* protocol : {"ll", "ll128", "simple"}) {
    add(ring(protocol, size));
    add(tree(protocol, size));
  }
  add(nvls(size));
  if (ways.empty()) throw harness::Error("NCCL has no " + settings.algorithm + " on this machine");
  const Way& best = *std::ranges::min_element(ways, {}, &Way::planned);
  std::string protocol = best.protocol == "simple" ? "Simple" : best.protocol == "ll" ? "LL" : "LL128";
  NcclForecast result{std::max(best.seconds, launch), best.algorithm + " " + protocol, {}};
  if (launch > best.seconds) {
    result.why = "one process launches for all devices";
  } else {
    result.why = settings.algorithm.empty() ? "NCCL's own estimate is lowest for it" : "asked for";
  }
  return result;
}

}  // namespace allreduce
