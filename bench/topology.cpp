// SPDX-License-Identifier: Apache-2.0
// bench_topology: what a described machine looks like, and what no all-reduce can beat there.
#include <filesystem>
#include <fstream>
#include <iostream>

#include "allreduce/bound.hpp"
#include "allreduce/picture.hpp"
#include "allreduce/relabel.hpp"
#include "allreduce/topologies.hpp"
#include "bench/main.hpp"
#include "bench/named_topology.hpp"
#include "bench/session.hpp"
#include "harness/text.hpp"

namespace {

using nlohmann::json;

constexpr std::size_t bytes_of_bound = std::size_t(1) << 30;
constexpr std::size_t most_listed_groups = 16;

std::vector<harness::Option> table() {
  auto options = harness::common_options();
  options.push_back(
      {.name = "topology",
       .kind = harness::Kind::names,
       .help = "which machines: a name, a family, a file, or auto; allreduce/topologies/README.md lists them"});
  options.push_back({.name = "without",
                     .kind = harness::Kind::names,
                     .default_text = "none",
                     .help = "what is taken away from them",
                     .allowed = {"none", "nvlink"}});
  options.push_back({.name = "svg", .kind = harness::Kind::text, .help = "draw the machine into this file"});
  return options;
}

class Bench {
 public:
  explicit Bench(const harness::Options& options) : options_(options) {
    if (options.has("device")) bench::device_points(options, "");  // not used here, and still not to be nonsense
    for (const std::string& name : options.names("topology")) {
      for (const std::string& missing : options.names("without")) {
        machines_.push_back({name, missing, bench::named_topology(name, missing, constants_)});
      }
    }
    if (machines_.empty() && !options.on("list")) {
      throw harness::UsageError("--topology: one is needed; --list prints the names of all");
    }
    if (!options.has("svg")) return;
    if (machines_.size() != 1)
      throw harness::bad_value("svg", options.text("svg"), "draws one --topology, not several");
    if (!std::ofstream(options.text("svg"), std::ios::app)) {
      throw harness::bad_value("svg", options.text("svg"), "that file cannot be written");
    }
  }

  int run() {
    if (options_.on("list")) {
      for (const auto& name : allreduce::topology_names()) {
        std::cout << name << ": " << allreduce::find_topology(name, constants_).about << '\n';
      }
      return 0;
    }
    bench::Session session(options_, "bench_topology", "topologies", machines_.size(), [](const harness::Result&) {});
    for (const Machine& machine : machines_) {
      session.point(machine.name, [&] { describe(machine, session); });
    }
    return session.finish();
  }

 private:
  struct Machine {
    std::string name, without;
    allreduce::Topology topology;
  };

  void describe(const Machine& machine, bench::Session& session) const {
    const allreduce::Topology& topology = machine.topology;
    harness::Result result;
    result.bench = "topology";
    result.nature = harness::Nature::simulated;
    result.point = {{"topology", machine.name},
                    {"without", machine.without == "none" ? json(nullptr) : json(machine.without)},
                    {"ranks", topology.size()},
                    {"bytes", bytes_of_bound}};
    result.command = {"bench_topology", "--topology=" + machine.name, "--without=" + machine.without};
    const std::size_t row = session.add(result);
    const allreduce::Bound bound = allreduce::bound(topology);
    result.metrics = {{"nodes", topology.nodes.size()},
                      {"links", topology.links.size()},
                      {"devices", topology.size()},
                      {"bound_seconds", bound.seconds(bytes_of_bound)},
                      {"bound_kind", "topology"}};
    session.update(row, result);

    std::cout << "# " << machine.name << (machine.without == "none" ? "" : " without " + machine.without) << ": "
              << topology.about << "\n\n"
              << allreduce::matrix_text(topology) << '\n'
              << allreduce::tree_text(topology) << '\n';
    if (bound.groups.empty()) return;
    std::cout << "the cut that bounds an all-reduce:";
    for (std::size_t group = 0; group < std::min(bound.groups.size(), most_listed_groups); ++group) {
      std::cout << (group == 0 ? " " : " | ");
      for (const auto rank : bound.groups[group]) std::cout << rank << (rank == bound.groups[group].back() ? "" : " ");
    }
    if (bound.groups.size() > most_listed_groups) std::cout << " | ...";
    std::cout << ", which can send " << harness::format_bandwidth(bound.bytes_per_second) << "\n1 GiB takes at least "
              << harness::format_seconds(bound.seconds(bytes_of_bound)) << ", "
              << harness::format_bandwidth(1 / bound.seconds_per_byte) << " of algorithm bandwidth\n";
    allreduce::Router router(topology, allreduce::Mover::copy_engine);
    const auto best = allreduce::best_ring(router);
    if (best.size() > 2) {
      std::cout << "the best order of a ring:";
      for (const auto rank : best) std::cout << ' ' << rank;
      std::cout << ", " << harness::format_bandwidth(allreduce::ring_rate(router, best)) << " a hop\n";
    }
    std::cout << '\n';
    if (options_.has("svg")) {
      std::ofstream file(options_.text("svg"));
      file << allreduce::svg_text(topology, bound);
      if (!file.flush()) throw harness::Error("cannot write " + options_.text("svg"));
    }
  }

  const harness::Options& options_;
  const allreduce::Constants constants_;
  std::vector<Machine> machines_;
};

}  // namespace

int main(int argc, char** argv) {
  return bench::run_main("bench_topology", "Shows a described machine, and the bound of any all-reduce on it.", table(),
                         argc, argv, [](const harness::Options& options) { return Bench(options).run(); });
}
