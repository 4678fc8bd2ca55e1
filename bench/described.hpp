// SPDX-License-Identifier: Apache-2.0
// Machines that are described (--topology, --without, --rank-order), and what a contender takes on one: by the
// simulator, or by the model of NCCL.
#pragma once

#include <cstddef>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "allreduce/bound.hpp"
#include "allreduce/nccl_model.hpp"
#include "allreduce/topologies.hpp"
#include "bench/schedules.hpp"
#include "harness/options.hpp"

namespace bench {

struct Machine {
  nlohmann::json topology, without, rank_order;  // as in a point
  allreduce::Topology described;
  allreduce::Bound bound;
};

std::vector<harness::Option> topology_options();

// The devices of a machine in an order of --rank-order: "best" for a ring, or a list. Throws UsageError for another
// text.
std::vector<allreduce::Rank> rank_order(const std::string& text, const allreduce::Topology& machine);

// Every topology that was asked for, with and without what is taken away.
std::vector<Machine> described_machines(const harness::Options& options, const allreduce::Constants& constants);

struct Forecast {
  double seconds = 0;
  bool busbw_is_link_speed = false;
  nlohmann::json extra = {};  // "chosen", or "critical_path", "busiest_link" and "links" of a result
};

// Keeps what calls of all sizes share: routes, and schedules of one shape.
class Forecaster {
 public:
  Forecaster(const Machine& machine, const allreduce::Constants& constants, const Schedules& schedules,
             const allreduce::Shape& shape);

  // Our streams engine. The algorithm is one of the names but auto; the schedule is proved first.
  Forecast streams(const std::string& algorithm, const allreduce::Workload& workload);
  // An all-reduce of NCCL.
  Forecast nccl(std::size_t bytes, const allreduce::NcclSettings& settings = {});

 private:
  const Machine& machine_;
  const allreduce::Constants& constants_;
  const Schedules& all_;
  allreduce::Shape shape_;
  allreduce::Router router_;
  std::map<std::string, allreduce::Schedule> schedules_ = {};
  std::optional<allreduce::NcclModel> nccl_ = {};
};

}  // namespace bench
