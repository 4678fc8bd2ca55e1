// SPDX-License-Identifier: Apache-2.0
#include "bench/schedules.hpp"

#include <fstream>
#include <iostream>
#include <sstream>

#include "allreduce/algorithms.hpp"
#include "allreduce/schedule_file.hpp"
#include "allreduce/verify.hpp"

namespace bench {

using harness::bad_value;

std::vector<harness::Option> schedule_options() {
  return {{.name = "group",
           .kind = harness::Kind::integer,
           .help = "ranks of a group, of hierarchical and leader; by default about the square root of all",
           .minimum = 1,
           .maximum = 1e6},
          {.name = "schedule",
           .kind = harness::Kind::text,
           .help = "run the schedule in this file instead: our JSON (see --export) or an MSCCL program"},
          {.name = "export",
           .kind = harness::Kind::text,
           .help = "write the schedule of --algorithm to this file, for --schedule, and end"}};
}

Schedules::Schedules(const harness::Options& options) : file_(options.text("schedule")) {
  if (options.has("group")) group_ = static_cast<int>(options.integer("group"));
  if (file_.empty()) {
    names_ = allreduce::select_algorithms(options.names("algorithm"));
    return;
  }
  if (options.given("algorithm")) throw bad_value("schedule", file_, "it takes the place of --algorithm");
  try {
    std::ifstream file(file_, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    if (!file || text.str().empty()) throw harness::UsageError("that file cannot be read, or is empty");
    own_ = allreduce::parse_schedule(text.str());
  } catch (const harness::Error& error) {
    throw bad_value("schedule", file_, error.what());
  }
  const auto verdict = allreduce::verify(*own_);
  if (!verdict.proved) throw bad_value("schedule", file_, "it is no all-reduce: " + verdict.reason);
  names_ = {own_->name};
}

allreduce::Schedule Schedules::build(const std::string& name, const allreduce::Shape& shape) const {
  if (!own_) {
    allreduce::Shape grouped = shape;
    grouped.group = group_;
    return allreduce::find_algorithm(name)->build(grouped);
  }
  if (own_->shape.ranks != shape.ranks || shape.pieces != 1 || shape.placement != allreduce::Placement::in_place) {
    throw bad_value("schedule", file_,
                    "it is for " + std::to_string(own_->shape.ranks) + " ranks, one piece and in place, not for " +
                        std::to_string(shape.ranks) + " ranks and " + std::to_string(shape.pieces) + " pieces" +
                        (shape.placement == allreduce::Placement::in_place ? "" : " out of place"));
  }
  return *own_;
}

std::optional<int> Schedules::group(const std::string& name, const allreduce::Shape& shape) const {
  const auto* algorithm = allreduce::find_algorithm(name);  // null: what another's library calls its own
  if (own_ || !algorithm || !algorithm->grouped) return std::nullopt;
  allreduce::Shape grouped = shape;
  grouped.group = group_;
  return allreduce::group_of(grouped);
}

bool Schedules::busbw_is_link_speed(const std::string& name) const {
  return !own_ && allreduce::find_algorithm(name)->busbw_is_link_speed;
}

void Schedules::write(const std::string& file, const allreduce::Shape& shape) const {
  if (names_.size() != 1) throw bad_value("export", file, "one --algorithm is written, not several");
  if (shape.placement != allreduce::Placement::in_place) throw bad_value("export", file, "only schedules in place");
  const auto schedule = build(names_[0], shape);
  std::string text;
  try {
    text = allreduce::schedule_text(schedule);
  } catch (const harness::Error& error) {
    throw bad_value("export", file, error.what());
  }
  std::ofstream out(file);
  out << text;
  if (!out.flush()) throw bad_value("export", file, "that file cannot be written");
  std::cout << "# " << file << ": " << schedule.name << " for " << shape.ranks << " ranks, " << schedule.ops.size()
            << " ops\n";
}

}  // namespace bench
