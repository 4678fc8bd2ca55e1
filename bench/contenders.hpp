// SPDX-License-Identifier: Apache-2.0
// What a block of bench_allreduce is run by, contender by contender: our schedules on streams or by processes over MPI,
// and what other libraries do, which has no schedule. What each can take, and how it is prepared, stands here alone.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bench/engines.hpp"
#include "bench/schedules.hpp"
#include "harness/options.hpp"
#include "harness/report.hpp"
#include "harness/world.hpp"

namespace bench {

std::vector<harness::Option> contender_options();

struct Prepared {
  std::unique_ptr<allreduce::Program> program;
  bool busbw_is_link_speed = true;
};

class Contenders {
 public:
  // Of the engines that were asked for, without the simulated one. Throws UsageError where the job has several
  // processes and an engine runs in one, and where the collective has no schedules for an engine that runs them.
  Contenders(const harness::Options& options, const Schedules& schedules, harness::World& world);

  const std::vector<std::string>& engines() const { return engines_; }
  // The axes of each, to be joined with those of a block.
  std::vector<nlohmann::json> trials() const;
  // For a table: "ring push", "nccl tree".
  static std::string name_of(const harness::Result& result);
  // The options that repeat a point, without those of its schedule.
  std::vector<std::string> command_for(const nlohmann::json& point) const;

  // Why it cannot run this.
  std::optional<std::string> refuses(const harness::Result& row, const allreduce::Problem& problem) const;
  // Memory for a block's vectors, as its contenders want it.
  harness::Buffer allocate(harness::Device& device, std::size_t bytes) const;
  // What it does not refuse; where ranks are processes, in all of them together.
  Prepared prepare(const harness::Result& row, const allreduce::Shape& shape, const allreduce::Problem& problem) const;

 private:
  Call call_of(const harness::Result& row) const;

  const harness::Options& options_;
  const Schedules& schedules_;
  harness::World& world_;
  std::vector<std::string> engines_;
};

}  // namespace bench
