// SPDX-License-Identifier: Apache-2.0
// The schedules that a bench was asked for: rows of the catalogue (--algorithm) of a collective (--collective), or one
// from a file (--schedule), proved before it is used; and writing one to a file (--export).
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "allreduce/schedule.hpp"
#include "harness/options.hpp"
#include "harness/report.hpp"

namespace bench {

std::vector<harness::Option> schedule_options();

// Which algorithm a row is of: where it asks for auto, what that chose; empty where another library chooses.
std::string algorithm_of(const harness::Result& result);

class Schedules {
 public:
  // Throws UsageError for a file that is none, or is not proved, and for what the collective does not have.
  explicit Schedules(const harness::Options& options);

  allreduce::Collective collective() const { return collective_; }
  allreduce::Rank root() const { return root_; }
  const std::vector<std::string>& names() const { return names_; }  // "auto" too, which a Tuning makes one of them
  bool chooses() const { return chooses_; }                         // whether that is among them
  // The values of the axis `op`: null for a collective that reduces nothing.
  const std::vector<nlohmann::json>& ops() const { return ops_; }

  bool fits_any_ranks() const { return !own_ && root_ == 0; }
  // Throws UsageError where the root is no rank, or the file's schedule is for other ranks, pieces or placement.
  void require_fitting(const allreduce::Shape& shape) const;
  // Of one of the names but auto.
  allreduce::Schedule build(const std::string& name, const allreduce::Shape& shape) const;
  bool busbw_is_link_speed(const std::string& name) const;
  const std::string& file() const { return file_; }  // empty: the catalogue's

  // The bench of a result whose point is of the others' axes, and what its point and command say of the schedule.
  void describe(harness::Result& result, const allreduce::Shape& shape) const;

  // Writes the one schedule that was asked for, and says so. Throws UsageError where that is not possible.
  void write(const std::string& file, const allreduce::Shape& shape) const;

 private:
  allreduce::Shape asked_for(allreduce::Shape shape) const;  // with group and root

  allreduce::Collective collective_;
  allreduce::Rank root_;
  std::string file_;
  std::optional<allreduce::Schedule> own_;
  std::vector<std::string> names_;
  bool chooses_ = false;
  std::vector<nlohmann::json> ops_;
  int group_ = 0;  // as asked for
};

}  // namespace bench
