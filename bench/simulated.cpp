// SPDX-License-Identifier: Apache-2.0
#include "bench/simulated.hpp"

#include <iostream>

#include "bench/main.hpp"
#include "harness/device/dtype.hpp"
#include "harness/sweep.hpp"
#include "harness/text.hpp"

namespace bench {

using harness::Kind;
using nlohmann::json;

std::vector<harness::Option> simulation_options() {
  auto options = topology_options();
  options.push_back({.name = "software",
                     .kind = Kind::names,
                     .default_text = "streams",
                     .help = "whose software is simulated: our streams engine, or NCCL with a process a device",
                     .allowed = {"streams", "nccl"}});
  return options;
}

Simulated::Simulated(const harness::Options& options, const Schedules& schedules)
    : options_(options),
      schedules_(schedules),
      columns_({{.title = "nature", .left = true, .width = 9},
                {.title = "topology", .left = true, .width = 16},
                {.title = "bytes", .width = 11},
                {.title = "type", .width = 4},
                {.title = "algorithm", .left = true, .width = 18},
                {.title = "launch", .left = true, .width = 6},
                {.title = "time", .width = 8},
                {.title = "algbw", .width = 9},
                {.title = "busbw", .width = 9},
                {.title = "bound", .width = 8},
                {.title = "of it", .width = 7},
                {.title = "busiest link", .left = true, .width = 36},
                {.title = "what the time goes into", .left = true}}) {
  if (options.names("topology").empty()) {
    throw harness::UsageError("--topology: --engine=simulated needs at least one; allowed: " +
                              harness::join(allreduce::topology_names(), ", ") + ", ring:8 and other families, a file");
  }
  machines_ = described_machines(options, constants_);
  for (const std::string& software : options.names("software")) {
    if (software == "nccl") {
      if (schedules.collective() != allreduce::Collective::allreduce) {
        throw harness::bad_value("software", software, "of NCCL only all-reduce is simulated");
      }
      contenders_.push_back({software, software, "eager"});
      continue;
    }
    for (const std::string& algorithm : schedules.names()) {
      for (const std::string& launch : options.names("launch")) contenders_.push_back({software, algorithm, launch});
    }
  }
  points_ = harness::points({{"dtype", values(options.names("dtype"))},
                             {"op", schedules.ops()},
                             {"placement", values(options.names("placement"))},
                             {"pieces", values(options.integers("pieces"))}});
  std::vector<json> all;
  for (const Machine& machine : machines_) {
    for (json point : points_) {
      point.update({{"topology", machine.topology}, {"without", machine.without}, {"rank_order", machine.rank_order}});
      all.push_back(std::move(point));
    }
  }
  points_ = std::move(all);
  for (std::size_t at = 0; at < points_.size(); ++at) {
    schedules.require_fitting(shape_of(machine_of(at), points_[at]));
  }
}

void Simulated::print_header() const { columns_.print_header(std::cout); }

void Simulated::print_footer() const {
  std::cout << "# simulated, not measured: see allreduce/README.md for how far such numbers are from measured ones";
  if (schedules_.collective() == allreduce::Collective::allreduce) {
    std::cout << "; bound: no all-reduce can be faster there";
  }
  std::cout << '\n';
}

void Simulated::run(Session& session) {
  for (std::size_t at = 0; at < points_.size(); ++at) {
    session.point(points_[at].dump(), [&] { run_machine(machine_of(at), points_[at], session); });
  }
}

const Machine& Simulated::machine_of(std::size_t point) const {
  return machines_[point / (points_.size() / machines_.size())];
}

allreduce::Shape Simulated::shape_of(const Machine& machine, const json& point) {
  return {machine.described.size(), point["pieces"],
          point["placement"] == "in_place" ? allreduce::Placement::in_place : allreduce::Placement::out_of_place};
}

// All sizes of a point, since they share schedules and routes; a row each, with the sizes outside.
void Simulated::run_machine(const Machine& machine, const json& point, Session& session) const {
  const harness::Dtype dtype = *harness::parse_dtype(point["dtype"].get<std::string>());
  const allreduce::Shape shape = shape_of(machine, point);
  Forecaster forecaster(machine, constants_, schedules_, shape);
  for (const std::size_t bytes : options_.bytes("bytes")) {
    const std::size_t count = bytes / harness::size_of(dtype);
    for (const Contender& contender : contenders_) {
      harness::Result result;
      result.nature = harness::Nature::simulated;
      result.point = point;
      result.point["bytes"] = count * harness::size_of(dtype);
      result.point["engine"] = "simulated";
      result.point["device"] = machine.topology;
      result.point["threads"] = nullptr;
      result.point["ranks"] = machine.described.size();
      result.point["software"] = contender.software;
      result.point["launch"] = contender.launch;
      result.point["algorithm"] = contender.algorithm;
      result.command = {"bench_allreduce", "--engine=simulated"};
      for (const char* axis :
           {"topology", "software", "algorithm", "bytes", "dtype", "op", "placement", "launch", "pieces"}) {
        const json& value = result.point[axis];
        if (value.is_null() ||
            (axis == std::string_view("algorithm") && (contender.software == "nccl" || !schedules_.file().empty())))
          continue;
        result.command.push_back(std::string("--").append(axis).append("=").append(
            value.is_string() ? value.get<std::string>() : value.dump()));
      }
      if (!machine.without.is_null()) result.command.push_back("--without=" + machine.without.get<std::string>());
      schedules_.describe(result, shape);
      if (machine.rank_order != "given") result.command.push_back("--rank-order=" + options_.text("rank-order"));

      const auto launch = contender.launch == "graph" ? allreduce::Launch::graph : allreduce::Launch::eager;
      Forecast forecast = contender.software == "nccl"
                              ? forecaster.nccl(result.point["bytes"])
                              : forecaster.streams(contender.algorithm, {count, harness::size_of(dtype), launch});
      result.extra = std::move(forecast.extra);
      result.metrics = harness::bandwidths(result.point["bytes"], forecast.seconds,
                                           allreduce::busbw_factor(schedules_.collective(), machine.described.size()));
      result.metrics.update({{"seconds", forecast.seconds}, {"busbw_is_link_speed", forecast.busbw_is_link_speed}});
      if (schedules_.collective() == allreduce::Collective::allreduce) {
        const double bound = machine.bound.seconds(result.point["bytes"]);
        result.metrics.update(
            {{"bound_seconds", bound},
             {"bound_kind", "topology"},
             {"bound_efficiency", forecast.seconds > 0 ? json(bound / forecast.seconds) : json(nullptr)}});
      }
      session.add(std::move(result));
    }
  }
}

void Simulated::print(const harness::Result& result) const {
  const json& point = result.point;
  const auto metric = [&](const char* name) { return metric_of(result, name); };
  std::string topology = point["topology"];
  if (point["without"].is_string()) topology.append(" -").append(point["without"].get<std::string>());
  std::string algorithm = point["algorithm"];
  std::string busiest, reason;
  if (result.extra.contains("chosen")) {
    algorithm.append(" ").append(result.extra["chosen"]["algorithm"].get<std::string>());
    reason = result.extra["chosen"]["why"];
  } else if (result.extra.contains("critical_path")) {
    reason = result.extra["critical_path"];
    const json& link = result.extra["busiest_link"];
    if (link.is_object()) {
      busiest = link["from"].get<std::string>() + " > " + link["to"].get<std::string>() + " (" +
                link["kind"].get<std::string>() + "), " + harness::format_percent(link["utilisation"]);
    }
  }
  columns_.print_row(std::cout, {"simulated", topology, std::to_string(point["bytes"].get<std::size_t>()),
                                 point["dtype"], algorithm, point["launch"], harness::format_seconds(metric("seconds")),
                                 harness::format_bandwidth(metric("algbw")), harness::format_bandwidth(metric("busbw")),
                                 harness::format_seconds(metric("bound_seconds")),
                                 harness::format_percent(metric("bound_efficiency")), busiest, reason});
}

}  // namespace bench
