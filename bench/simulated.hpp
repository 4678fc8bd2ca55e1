// SPDX-License-Identifier: Apache-2.0
// The simulated engine of bench_allreduce: the same axes and the same rows, on described machines instead of devices.
// Every row says that it is simulated, what bounds it, which link was busiest and what its time goes into.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "allreduce/topologies.hpp"
#include "bench/described.hpp"
#include "bench/schedules.hpp"
#include "bench/session.hpp"
#include "harness/options.hpp"
#include "harness/table.hpp"

namespace bench {

// Options of the simulated engine, those of topologies among them, for a bench's table.
std::vector<harness::Option> simulation_options();

class Simulated {
 public:
  // Reads the topologies: what cannot be read is said before anything runs. Throws UsageError.
  Simulated(const harness::Options& options, const Schedules& schedules);

  const std::vector<nlohmann::json>& points() const { return points_; }
  int ranks() const { return machines_[0].described.size(); }  // of the first
  void print_header() const;
  void run(Session& session);
  void print(const harness::Result& result) const;
  void print_footer() const;

 private:
  struct Contender {
    std::string software, algorithm, launch;
  };
  const Machine& machine_of(std::size_t point) const;
  static allreduce::Shape shape_of(const Machine& machine, const nlohmann::json& point);
  void run_machine(const Machine& machine, const nlohmann::json& point, Session& session) const;

  const harness::Options& options_;
  const Schedules& schedules_;
  const allreduce::Constants constants_;
  harness::Table columns_;
  std::vector<Machine> machines_;
  std::vector<Contender> contenders_;
  std::vector<nlohmann::json> points_;
};

}  // namespace bench
