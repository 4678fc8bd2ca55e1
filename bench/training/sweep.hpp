// SPDX-License-Identifier: Apache-2.0
// What bench_train was asked to do, point by point, and what the options come to for each. Points that share a model,
// its arithmetic and the devices are a block: they share the replicas too, unless some keep less in them than others.
// Blocks of one model are a group, whose points are timed against each other.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bench/training/checkpoints.hpp"
#include "bench/training/course.hpp"
#include "bench/training/strategy.hpp"
#include "harness/measure.hpp"
#include "harness/options.hpp"
#include "harness/report.hpp"
#include "harness/world.hpp"

namespace bench {

class Sweep {
 public:
  // Throws harness::UsageError for whatever does not go together, so that nothing is measured in vain. The options and
  // the world outlive the sweep; where that is of several processes, each is a rank.
  Sweep(const harness::Options& options, harness::World& world);

  int ranks_on(const harness::Devices& devices) const { return world_.size() > 1 ? world_.size() : devices.size(); }

  // Each block: model, math, device.
  const std::vector<std::vector<nlohmann::json>>& groups() const { return groups_; }
  // What a block compares, each as strategy, engine, algorithm, overlap and the block, in parts that share the
  // replicas. One device has nothing to reduce: one engine and algorithm stand for all there.
  std::vector<std::vector<nlohmann::json>> fleets_of(const nlohmann::json& block) const;
  std::vector<nlohmann::json> points() const;
  // Why these devices cannot do what was asked for, if they cannot.
  std::optional<std::string> refuses(const harness::Devices& devices) const;
  // The row of a point; every process describes it.
  harness::Result describe(const nlohmann::json& point, const harness::Devices& devices) const;
  // The command that repeats a described point alone.
  std::vector<std::string> command_for(const nlohmann::json& point) const;

  const std::string& scaling() const { return scaling_; }  // weak or strong
  // All points of a fleet have the same.
  models::ModelSettings model_settings(const nlohmann::json& point, int ranks) const;
  Conditions conditions(int ranks) const;
  bool shares_momentum(const nlohmann::json& point) const;
  StrategySettings strategy_settings(const nlohmann::json& point, int ranks) const;
  CourseSettings course_settings(int ranks) const;  // without the data sets
  // What is trained where no number of steps or epochs was asked for, so that no sweep of a large model trains for
  // hours: fewer steps where they are long, as many for all ways that are measured together. A checkpoint needs a fixed
  // number.
  std::size_t steps_within(double slowest_step_seconds) const;
  harness::MeasureSettings measure_settings() const;
  const Checkpoints& checkpoints() const { return checkpoints_; }
  bool finds_buckets() const { return options_.on("find-bucket"); }

 private:
  void require_engines() const;
  void require_sense() const;
  void require_devices(const std::vector<std::string>& devices) const;
  std::size_t global_batch(int ranks) const;
  int ranks_of(const std::string& device) const;  // of a point of --device
  // What a strategy's collectives are run by: engine and algorithm, with what else tells a library's ways apart.
  std::vector<nlohmann::json> carriers_of(const StrategyRow& strategy) const;

  const harness::Options& options_;
  harness::World& world_;
  std::string scaling_;
  std::vector<std::vector<nlohmann::json>> groups_;
  Checkpoints checkpoints_;
};

const StrategyRow& strategy_of(const nlohmann::json& point);

// "lenet cpu:2 distributed ring", or "resnet18 winograd cpu:2 distributed ring".
std::string name_of(const nlohmann::json& point);

}  // namespace bench
