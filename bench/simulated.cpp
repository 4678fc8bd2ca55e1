// SPDX-License-Identifier: Apache-2.0
#include "bench/simulated.hpp"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <map>
#include <optional>
#include <set>

#include "allreduce/nccl_model.hpp"
#include "allreduce/relabel.hpp"
#include "allreduce/verify.hpp"
#include "bench/main.hpp"
#include "harness/device/dtype.hpp"
#include "harness/sweep.hpp"
#include "harness/text.hpp"

namespace bench {

using harness::Kind;
using nlohmann::json;

namespace {

constexpr std::size_t most_listed_links = 64;
constexpr std::size_t most_proved_ops = 200'000;  // of a catalogue's schedule, which the tests prove anyway

// "2,0,1": a rank order of so many ranks.
std::vector<allreduce::Rank> parse_order(const std::string& text, int ranks) {
  std::vector<allreduce::Rank> order;
  std::set<std::int64_t> seen;
  for (const std::string& part : harness::split(text, ',')) {
    const auto rank = harness::parse_integer(part, 0, ranks - 1);
    if (!rank || !seen.insert(*rank).second) break;
    order.push_back(static_cast<int>(*rank));
  }
  if (static_cast<int>(order.size()) != ranks || seen.size() != order.size()) {
    throw harness::bad_value("rank-order", text,
                             "allowed: given, best, or every rank from 0 to " + std::to_string(ranks - 1) + " once");
  }
  return order;
}

json link_json(const allreduce::Topology& topology, const allreduce::LinkLoad& load) {
  const allreduce::Link& link = topology.links[load.link];
  const double rate = topology.rate(load.link, allreduce::Mover::copy_engine);
  return {{"from", topology.nodes[link.from].name},
          {"to", topology.nodes[link.to].name},
          {"kind", topology.classes[link.link_class].name},
          {"bytes", std::llround(load.bytes)},
          {"seconds", load.bytes / rate},
          {"utilisation", load.utilisation}};
}

}  // namespace

std::vector<harness::Option> simulation_options() {
  return {{.name = "topology",
           .kind = Kind::names,
           .help = "machines of the simulated engine: dgx-a100, dgx-h100*16, pcie4-8gpu:4, ring:8, a file; "
                   "allreduce/topologies/README.md lists them"},
          {.name = "without",
           .kind = Kind::names,
           .default_text = "none",
           .help = "what is taken away from them",
           .allowed = {"none", "nvlink"}},
          {.name = "software",
           .kind = Kind::names,
           .default_text = "streams",
           .help = "whose software is simulated: our streams engine, or NCCL with a process a device",
           .allowed = {"streams", "nccl"}},
          {.name = "rank-order",
           .kind = Kind::text,
           .default_text = "given",
           .help = "which device is which rank: given, best (for a ring), or a list such as 0,2,1,3"}};
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
  for (const std::string& name : options.names("topology")) {
    for (const std::string& missing : options.names("without")) {
      Machine machine{name, missing == "none" ? json(nullptr) : json(missing), "given", {}, {}};
      try {
        machine.described = allreduce::find_topology(name, constants_);
        if (missing != "none") machine.described = allreduce::without(machine.described, missing);
        allreduce::Router router(machine.described, allreduce::Mover::copy_engine);
        for (int rank = 1; rank < machine.described.size(); ++rank) router.between(0, rank);
      } catch (const harness::Error& error) {
        throw harness::bad_value("topology", name, error.what());
      }
      const std::string order = options.text("rank-order");
      if (order != "given") {
        allreduce::Router router(machine.described, allreduce::Mover::copy_engine);
        const auto ranks =
            order == "best" ? allreduce::best_ring(router) : parse_order(order, machine.described.size());
        machine.described = allreduce::reordered(machine.described, ranks);
        machine.rank_order = ranks;
      }
      machine.bound = allreduce::bound(machine.described);
      machines_.push_back(std::move(machine));
    }
  }
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

const Simulated::Machine& Simulated::machine_of(std::size_t point) const {
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
  allreduce::Router router(machine.described, allreduce::Mover::copy_engine);
  std::map<std::string, allreduce::Schedule> schedules;
  std::optional<allreduce::NcclModel> nccl;
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

      double seconds = 0;
      bool link_speed = false;
      if (contender.software == "nccl") {
        if (!nccl) nccl.emplace(machine.described, constants_);
        const auto forecast = nccl->forecast(result.point["bytes"]);
        seconds = forecast.seconds;
        link_speed = forecast.algorithm.starts_with("ring");
        result.extra = {{"chosen", {{"algorithm", forecast.algorithm}, {"why", forecast.why}}}};
      } else {
        auto known = schedules.find(contender.algorithm);
        if (known == schedules.end()) {
          known = schedules.emplace(contender.algorithm, schedules_.build(contender.algorithm, shape)).first;
          if (known->second.ops.size() <= most_proved_ops) {
            const auto verdict = allreduce::verify(known->second);
            if (!verdict.proved) throw harness::Error(verdict.reason);
          }
        }
        const auto launch = contender.launch == "graph" ? allreduce::Launch::graph : allreduce::Launch::eager;
        // What was measured holds the costs of its software already.
        const auto costs = machine.described.measured ? allreduce::StreamsCosts{} : constants_.streams();
        const auto timeline =
            allreduce::simulate(known->second, router, {count, harness::size_of(dtype), launch}, costs);
        seconds = timeline.seconds();
        link_speed = schedules_.busbw_is_link_speed(contender.algorithm);
        json links = json::array();
        for (std::size_t at = 0; at < std::min(timeline.loads.size(), most_listed_links); ++at) {
          links.push_back(link_json(machine.described, timeline.loads[at]));
        }
        result.extra = {{"critical_path", timeline.reason},
                        {"busiest_link", links.empty() ? json(nullptr) : links[0]},
                        {"links", links}};
      }
      result.metrics = harness::bandwidths(result.point["bytes"], seconds,
                                           allreduce::busbw_factor(schedules_.collective(), machine.described.size()));
      result.metrics.update({{"seconds", seconds}, {"busbw_is_link_speed", link_speed}});
      if (schedules_.collective() == allreduce::Collective::allreduce) {
        const double bound = machine.bound.seconds(result.point["bytes"]);
        result.metrics.update({{"bound_seconds", bound},
                               {"bound_kind", "topology"},
                               {"bound_efficiency", seconds > 0 ? json(bound / seconds) : json(nullptr)}});
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
