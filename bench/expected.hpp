// SPDX-License-Identifier: Apache-2.0
// Is a measured number normal for its machine? What the machine's description says that it should be, and a verdict.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "allreduce/topologies.hpp"
#include "bench/described.hpp"
#include "bench/schedules.hpp"
#include "harness/device/device.hpp"
#include "harness/options.hpp"
#include "harness/report.hpp"

namespace bench {

// Between a simulated and a measured time that are still taken for the same: twice what allreduce/README.md publishes
// as the model's error where a machine was left out, and a little for noise.
inline constexpr double same_within = 1.25;

class Expectations {
 public:
  // The one machine of --topology; without that, where `devices` (points of --device) are GPUs, what nvidia-smi tells
  // of this host; otherwise, and where there are no devices, none. Throws UsageError for what cannot be read.
  Expectations(const harness::Options& options, const Schedules& schedules, const std::vector<std::string>& devices);

  bool known() const { return machine_.has_value(); }
  // Throws UsageError where the machine was named and does not have so many devices.
  void require_ranks(const std::string& device, int ranks) const;

  // "expected" of a result: {"topology", "seconds", "ratio", "verdict", "link", "critical_path"}; null where nothing is
  // known of these devices, or of what the row did. `ratio` is measured over expected, the verdict "as expected",
  // "slow" or "fast"; `link` the busiest one, with the rate that it had and the one that was expected of it.
  nlohmann::json of(const harness::Result& measured, const harness::Devices& devices,
                    const allreduce::Shape& shape) const;

  // "chosen" of a result: the algorithm that is the fastest in the simulation, and why. Only where a machine is known.
  nlohmann::json fastest(const nlohmann::json& point, const allreduce::Shape& shape) const;

 private:
  // The machine with the devices of this point as its ranks; nothing where it has no such devices.
  std::optional<Machine> machine_of(const std::string& device, int ranks) const;

  const Schedules& schedules_;
  const allreduce::Constants constants_;
  bool named_;
  std::optional<Machine> machine_ = {};
};

// These points of --device with their GPUs in the order of --rank-order, on the machine that they are held against.
// Throws UsageError where that is no order of theirs, as for CPU devices, which are all alike.
std::vector<std::string> in_rank_order(std::vector<std::string> devices, const harness::Options& options);

// "slow 1.9x", which is measured over expected, or "as expected"; empty for none.
std::string verdict_of(const nlohmann::json& expected);

// A line on the row that is slowest against what was expected of it, with its link; empty where none is slow.
std::string slowest_of(const std::vector<harness::Result>& results);

}  // namespace bench
