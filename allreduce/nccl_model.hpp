// SPDX-License-Identifier: Apache-2.0
// What NCCL's all-reduce would take on a described machine: a model of its rings, trees and in-switch reduction (NVLS)
// with the step times of their protocols, none of which can be said as our schedules. It chooses as NCCL does, by
// NCCL's own estimate (src/graph/tuning.cc of NCCL 2.27: latencies and bytes added up), and then says what that choice
// takes: LL and LL128 forward word by word, so that steps can hide behind bytes; the Simple protocol's chunks grow with
// the vector until the pipeline is full, and each doubling costs the steps once more; a fabric adds its own latency.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "allreduce/topologies.hpp"
#include "allreduce/topology.hpp"

namespace allreduce {

struct NcclSettings {
  std::string algorithm = {};  // "ring", "tree", "nvls", "nvls_tree"; empty: NCCL chooses
  bool one_process = false;    // which then launches every device's kernel by itself, one after another
};

struct NcclForecast {
  double seconds = 0;
  std::string algorithm = {};  // "ring LL128"
  std::string why = {};
};

// The rings that NCCL would lay: as many as NVLinks allow, else one.
struct NcclRings {
  std::vector<std::vector<Rank>> orders = {};
  double rate = 0;  // bytes per second out of each device, all rings together
  bool over_nvlink = false;
};
NcclRings nccl_rings(const Topology& topology);

class NcclModel {
 public:
  NcclModel(const Topology& topology, const Constants& constants);
  NcclForecast forecast(std::size_t bytes, const NcclSettings& settings = {}) const;
  const NcclRings& rings() const { return rings_; }

 private:
  struct Way {
    std::string algorithm, protocol;
    double planned, seconds;
  };
  double constant(const std::string& name) const { return constants_("software", "nccl", name); }
  std::optional<Way> ring(const std::string& protocol, double bytes) const;
  std::optional<Way> tree(const std::string& protocol, double bytes) const;
  std::optional<Way> nvls(double bytes) const;
  double protocol_rate(const std::string& algorithm, const std::string& protocol) const;
  double fills(double bytes) const;
  double overlapped(const std::string& protocol, double latency, double moving) const;
  double wire_rate() const;
  double ll_most() const;

  const Constants constants_;
  int ranks_, hosts_;
  NcclRings rings_;            // within a host
  std::string generation_;     // that NCCL has constants for
  double network_rate_ = 0;    // bytes per second out of a host
  double fabric_seconds_ = 0;  // of a message between hosts, beyond what NCCL's constants hold
  double launch_seconds_ = 0;
  bool in_switch_reduction_ = false;
};

}  // namespace allreduce
