// SPDX-License-Identifier: Apache-2.0
#include "bench/schedules.hpp"

#include <algorithm>
#include <fstream>
#include <iostream>

#include "allreduce/algorithms.hpp"
#include "allreduce/schedule_file.hpp"
#include "allreduce/verify.hpp"
#include "harness/file.hpp"
#include "harness/text.hpp"

namespace bench {

using harness::bad_value;

namespace {

constexpr std::uintmax_t largest_file = 256U << 20U;

std::vector<std::string> names_of(allreduce::Collective collective) {
  std::vector<std::string> names;
  for (const auto& row : allreduce::algorithms(collective)) names.emplace_back(row.name);
  return names;
}

// Of any collective, each once.
std::vector<std::string> all_names() {
  std::vector<std::string> all = {"all", "auto"};
  for (const auto collective : allreduce::all_collectives) {
    for (const std::string& name : names_of(collective)) {
      if (std::find(all.begin(), all.end(), name) == all.end()) all.push_back(name);
    }
  }
  return all;
}

}  // namespace

std::vector<harness::Option> schedule_options() {
  std::vector<std::string> collectives;
  for (const auto collective : allreduce::all_collectives) collectives.emplace_back(allreduce::name(collective));
  return {{.name = "algorithm",
           .kind = harness::Kind::names,
           .default_text = "parameter_server,tree,ring",
           .help = "which algorithms, or all (the default of other collectives and of --tune); auto: as --tune found",
           .allowed = all_names()},
          {.name = "collective",
           .kind = harness::Kind::choice,
           .default_text = "allreduce",
           .help = "what the ranks do together",
           .allowed = collectives},
          {.name = "root",
           .short_form = "r",
           .kind = harness::Kind::integer,
           .default_text = "0",
           .help = "the rank that broadcast begins at and reduce ends at",
           .minimum = 0,
           .maximum = 1e6},
          {.name = "group",
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

Schedules::Schedules(const harness::Options& options)
    : collective_(allreduce::parse_collective(options.text("collective"))),
      root_(static_cast<allreduce::Rank>(options.integer("root"))),
      file_(options.text("schedule")) {
  const bool is_allreduce = collective_ == allreduce::Collective::allreduce;
  if (options.given("root") && !allreduce::has_root(collective_)) {
    throw bad_value("root", options.text("root"), options.text("collective") + " has none");
  }
  if (allreduce::reduces(collective_)) {
    for (const std::string& op : options.names("op")) ops_.emplace_back(op);
  } else {
    if (options.given("op")) throw bad_value("op", options.text("op"), options.text("collective") + " reduces nothing");
    ops_ = {nullptr};
  }
  if (options.has("group")) group_ = static_cast<int>(options.integer("group"));
  if (!is_allreduce && options.has("export")) throw bad_value("export", options.text("export"), "only all-reduces");
  if (file_.empty()) {
    const bool by_default = (!is_allreduce || options.on("tune")) && !options.given("algorithm");
    std::vector<std::string> wanted = by_default ? std::vector<std::string>{"all"} : options.names("algorithm");
    chooses_ = std::erase(wanted, "auto") > 0;
    if (chooses_ && !is_allreduce) throw bad_value("algorithm", "auto", "only all-reduces are tuned");
    names_ = allreduce::select_algorithms(wanted, collective_);
    for (const std::string& name : names_) {
      if (allreduce::find_algorithm(name, collective_)) continue;
      throw bad_value("algorithm", name,
                      "allowed with --collective=" + options.text("collective") + ": all, " +
                          harness::join(names_of(collective_), ", "));
    }
    if (chooses_) names_.emplace_back("auto");
    return;
  }
  if (options.given("algorithm")) throw bad_value("schedule", file_, "it takes the place of --algorithm");
  if (!is_allreduce) throw bad_value("schedule", file_, "only all-reduces are read from files");
  try {
    own_ = allreduce::parse_schedule(harness::read_file(file_, largest_file));
  } catch (const harness::Error& error) {
    throw bad_value("schedule", file_, error.what());
  }
  const auto verdict = allreduce::verify(*own_);
  if (!verdict.proved) throw bad_value("schedule", file_, "it is no all-reduce: " + verdict.reason);
  names_ = {own_->name};
}

allreduce::Shape Schedules::asked_for(allreduce::Shape shape) const {
  shape.group = group_;
  shape.root = root_;
  return shape;
}

void Schedules::require_fitting(const allreduce::Shape& shape) const {
  if (root_ >= shape.ranks) {
    throw bad_value("root", std::to_string(root_), "there are ranks 0 to " + std::to_string(shape.ranks - 1));
  }
  if (!own_) return;
  if (own_->shape.ranks != shape.ranks || shape.pieces != 1 || shape.placement != allreduce::Placement::in_place) {
    throw bad_value("schedule", file_,
                    "it is for " + std::to_string(own_->shape.ranks) + " ranks, one piece and in place, not for " +
                        std::to_string(shape.ranks) + " ranks and " + std::to_string(shape.pieces) + " pieces" +
                        (shape.placement == allreduce::Placement::in_place ? "" : " out of place"));
  }
}

allreduce::Schedule Schedules::build(const std::string& name, const allreduce::Shape& shape) const {
  return own_ ? *own_ : allreduce::find_algorithm(name, collective_)->build(asked_for(shape));
}

bool Schedules::busbw_is_link_speed(const std::string& name) const {
  return !own_ && allreduce::find_algorithm(name, collective_)->busbw_is_link_speed;
}

std::string algorithm_of(const harness::Result& result) {
  const nlohmann::json& named = result.extra.contains("chosen") ? result.extra["chosen"] : result.point;
  return named["algorithm"].is_null() ? "" : named["algorithm"];
}

void Schedules::describe(harness::Result& result, const allreduce::Shape& shape) const {
  result.bench = collective_ == allreduce::Collective::allreduce ? "allreduce" : "collective";
  const auto add = [&](const char* option, const nlohmann::json& value) {
    result.point[option] = value;
    if (value.is_null()) return;
    result.command.push_back(std::string("--").append(option).append("=").append(
        value.is_string() ? value.get<std::string>() : value.dump()));
  };
  if (result.bench == "collective") {
    add("collective", allreduce::name(collective_));
    add("root", allreduce::has_root(collective_) ? nlohmann::json(root_) : nlohmann::json(nullptr));
  }
  if (own_) return add("schedule", file_);
  const std::string name = algorithm_of(result);
  const auto* row = allreduce::find_algorithm(name, collective_);  // null: another library's
  if (row && row->grouped) add("group", allreduce::group_of(asked_for(shape)));
}

void Schedules::write(const std::string& file, const allreduce::Shape& shape) const {
  if (names_.size() != 1 || chooses_) {
    throw bad_value("export", file, "one --algorithm is written, not several, and not auto");
  }
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
