// SPDX-License-Identifier: Apache-2.0
#include "bench/contenders.hpp"

#include <unistd.h>

#include <algorithm>
#include <bit>

#include "allreduce/engines/nccl.hpp"
#include "bench/engines.hpp"
#include "bench/main.hpp"
#include "harness/sweep.hpp"

namespace bench {

namespace {

using harness::Kind;
using nlohmann::json;

// NCCL multiplies an average by 1/n before it adds.
bool rounds(const Call& call, const allreduce::Problem& problem) {
  const auto ranks = static_cast<unsigned>(problem.devices->size());
  return problem.op == harness::Op::avg && allreduce::reduces(call.collective) && !std::has_single_bit(ranks);
}

}  // namespace

std::vector<harness::Option> contender_options() {
  return {{.name = "engine",
           .kind = Kind::names,
           .default_text = "streams",
           .help = "what runs it: our schedules on streams, or by processes over MPI; one kernel a GPU that reads its "
                   "peers (direct: one_shot and two_shot); NVIDIA's NCCL; MPI's own collectives; Gloo's over TCP; or a "
                   "simulation on a described machine",
           .allowed = {"streams", "mpi", "direct", "nccl", "mpi_native", "gloo", "simulated"}},
          {.name = "launch",
           .kind = Kind::names,
           .default_text = "eager",
           .help = "issued op by op, or recorded once",
           .allowed = {"eager", "graph"}},
          {.name = "nccl-algo",
           .kind = Kind::names,
           .default_text = "auto",
           .help = "what NCCL does, each a row of its own; auto is its own choice",
           .allowed = {"auto", "ring", "tree", "collnetdirect", "collnetchain", "nvls", "nvlstree", "pat"}},
          {.name = "register",
           .kind = Kind::names,
           .default_text = "off",
           .help = "whether vectors are registered with NCCL, each a row of its own; with on, all are of its allocator",
           .allowed = {"off", "on"}},
          {.name = "gloo-algo",
           .kind = Kind::names,
           .default_text = "ring,halving_doubling",
           .help = "what Gloo does, each a row of its own",
           .allowed = {"ring", "ring_chunked", "halving_doubling"}},
          {.name = "direction",
           .kind = Kind::names,
           .default_text = "pull",
           .help = "who carries a copy between ranks: the one that receives it, or the one that sends it",
           .allowed = {"pull", "push"}},
          {.name = "fused",
           .kind = Kind::names,
           .default_text = "off",
           .help = "whether a rank reduces straight from its peers' memory, without a copy in between",
           .allowed = {"on", "off"}}};
}

Contenders::Contenders(const harness::Options& options, const Schedules& schedules, harness::World& world)
    : options_(options), schedules_(schedules), world_(world), engines_(options.names("engine")) {
  const auto alone = std::ranges::find_if_not(engines_, is_of_processes);
  if (world.size() > 1 && alone != engines_.end()) {
    const auto launcher = harness::find_launcher(environ);
    throw harness::bad_value("engine", *alone,
                             "it runs in one process, and " + (launcher ? launcher->name : "the launcher") +
                                 " started " + std::to_string(world.size()) + "; allowed: mpi, mpi_native, gloo");
  }
  for (const std::string& engine : engines_) {
    if (!runs_schedules(engine) || !schedules.names().empty()) continue;
    throw harness::bad_value("engine", engine,
                             "there are no schedules of " + options.text("collective") + "; allowed with it: nccl");
  }
  std::erase(engines_, "simulated");
}

std::vector<json> Contenders::trials() const {
  std::vector<json> trials;
  const auto launches = values(options_.names("launch"));
  const std::vector<json> none{nullptr};
  for (const std::string& engine : engines_) {
    const bool streams = engine == "streams";
    std::vector<json> algorithms = none;
    if (streams || engine == "mpi") algorithms = values(schedules_.names());
    if (engine == "direct") {
      algorithms = options_.given("algorithm") ? values(schedules_.names()) : std::vector<json>{"one_shot", "two_shot"};
    }
    const bool between_gpus = streams || engine == "direct" || engine == "nccl";
    for (json trial : harness::points({{"engine", {engine}},
                                       {"algorithm", algorithms},
                                       {"launch", launches},
                                       {"transport", {between_gpus ? json(options_.text("transport")) : json()}},
                                       {"direction", streams ? values(options_.names("direction")) : none},
                                       {"fused", streams ? values(options_.names("fused")) : none}})) {
      if (engine != "nccl" && engine != "gloo") {
        trials.push_back(std::move(trial));
        continue;
      }
      for (const std::string& algo : options_.names(engine + "-algo")) {
        trial[engine] = {{"algo", algo}};
        if (engine == "gloo") {
          trials.push_back(trial);
          continue;
        }
        trial[engine]["version"] = allreduce::nccl_version();
        for (const std::string& registers : options_.names("register")) {
          trial[engine]["register"] = registers == "on";
          trials.push_back(trial);
        }
      }
    }
  }
  return trials;
}

std::string Contenders::name_of(const harness::Result& result) {
  const json& point = result.point;
  for (const char* library : {"nccl", "gloo"}) {
    if (!point.contains(library)) continue;
    const std::string name = std::string(library) + ' ' + point[library]["algo"].get<std::string>();
    return point[library].value("register", false) ? name + " reg." : name;
  }
  if (point["engine"] == "mpi_native") return "MPI's own";
  std::string name = algorithm_of(result);
  if (point["algorithm"] == "auto") name.insert(0, "auto ");
  if (point["direction"] == "push") name.append(" push");
  if (point["fused"] == "on") name.append(" fused");
  return name;
}

std::vector<std::string> Contenders::command_for(const json& point) const {
  std::vector<std::string> command = {"bench_allreduce"};
  if (world_.size() > 1) command = {"mpirun", "-n", std::to_string(world_.size()), "bench_allreduce"};
  for (const std::string axis : {"engine", "device", "transport", "algorithm", "bytes", "dtype", "op", "placement",
                                 "launch", "direction", "fused", "pieces"}) {
    if (axis == "algorithm" && !schedules_.file().empty()) continue;
    const json& value = point[axis];
    if (value.is_null()) continue;
    command.push_back(std::string("--").append(axis).append("=").append(word_of(value)));
  }
  for (const std::string library : {"nccl", "gloo"}) {
    if (!point.contains(library)) continue;
    command.push_back(std::string("--").append(library).append("-algo=").append(word_of(point[library]["algo"])));
    if (point[library].value("register", false)) command.emplace_back("--register=on");
  }
  if (point["algorithm"] == "auto" && options_.given("tuning")) {
    command.push_back("--tuning=" + options_.text("tuning"));
  }
  command.push_back("--seed=" + std::to_string(options_.integer("seed")));
  return command;
}

Call Contenders::call_of(const harness::Result& row) const {
  const json& point = row.point;
  Call call{.engine = point["engine"],
            .algorithm = algorithm_of(row),
            .collective = schedules_.collective(),
            .root = schedules_.root()};
  for (const char* library : {"nccl", "gloo"}) {
    if (point.contains(library)) call.algorithm = point[library]["algo"];
  }
  call.registers = call.engine == "nccl" && point["nccl"]["register"].get<bool>();
  return call;
}

std::optional<std::string> Contenders::refuses(const harness::Result& row, const allreduce::Problem& problem) const {
  const Call call = call_of(row);
  if (call.engine == "direct" && !schedules_.file().empty()) {
    return "direct has kernels of its own, and runs no --schedule";
  }
  if (const auto why = bench::refuses(call, problem)) return why;
  if (call.engine != "nccl" || !rounds(call, problem) || !options_.on("check")) return std::nullopt;
  return "NCCL multiplies by 1/n before it adds, so an average over " + std::to_string(problem.devices->size()) +
         " ranks is rounded and has no exact answer; take --check=off";
}

harness::Buffer Contenders::allocate(harness::Device& device, std::size_t bytes) const {
  const auto& registers = options_.names("register");
  const bool wanted = std::ranges::find(registers, "on") != registers.end();
  return wanted ? allreduce::nccl_allocate(device, bytes) : device.allocate(bytes);
}

Prepared Contenders::prepare(const harness::Result& row, const allreduce::Shape& shape,
                             const allreduce::Problem& problem) const {
  const Call call = call_of(row);
  std::optional<allreduce::Schedule> schedule;
  if (runs_schedules(call.engine)) schedule = schedules_.build(call.algorithm, shape);
  bool busbw_is_link_speed = call.engine == "nccl" && call.algorithm == "ring";
  if (schedule || call.engine == "direct") busbw_is_link_speed = schedules_.busbw_is_link_speed(call.algorithm);
  return {bench::prepare(call, schedule, problem, world_), busbw_is_link_speed};
}

}  // namespace bench
