// SPDX-License-Identifier: Apache-2.0
// The schedules that a bench was asked for: rows of the catalogue (--algorithm), or one from a file (--schedule),
// proved before it is used; and writing one to a file (--export).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "allreduce/schedule.hpp"
#include "harness/options.hpp"

namespace bench {

std::vector<harness::Option> schedule_options();

class Schedules {
 public:
  // Throws UsageError for a file that is none, or is not proved.
  explicit Schedules(const harness::Options& options);

  const std::vector<std::string>& names() const { return names_; }
  // Throws UsageError where the file's schedule is for other ranks, pieces or placement.
  allreduce::Schedule build(const std::string& name, const allreduce::Shape& shape) const;
  // Ranks of a group, of an algorithm that has groups.
  std::optional<int> group(const std::string& name, const allreduce::Shape& shape) const;
  bool busbw_is_link_speed(const std::string& name) const;
  const std::string& file() const { return file_; }  // empty: the catalogue's

  // Writes the one schedule that was asked for, and says so. Throws UsageError where that is not possible.
  void write(const std::string& file, const allreduce::Shape& shape) const;

 private:
  std::string file_;
  std::optional<allreduce::Schedule> own_;
  std::vector<std::string> names_;
  int group_ = 0;  // as asked for
};

}  // namespace bench
