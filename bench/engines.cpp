// SPDX-License-Identifier: Apache-2.0
#include "bench/engines.hpp"

#include <algorithm>

#include "allreduce/engines/direct.hpp"
#include "allreduce/engines/gloo.hpp"
#include "allreduce/engines/mpi.hpp"
#include "allreduce/engines/nccl.hpp"
#include "allreduce/engines/rank_program.hpp"

namespace bench {

namespace {

std::optional<std::string> streams_refuse(const allreduce::Problem& problem) {
  if (!problem.fused) return std::nullopt;
  const harness::Devices& devices = *problem.devices;
  for (int reader = 0; reader < devices.size(); ++reader) {
    for (int owner = 0; owner < devices.size(); ++owner) {
      if (reader == owner || devices.route(reader, owner) != harness::Route::staged) continue;
      return devices[reader].name() + " cannot read the memory of " + devices[owner].name() +
             " directly, which --fused=on needs";
    }
  }
  return std::nullopt;
}

allreduce::NcclCall nccl_call(const Call& call) { return {call.collective, call.root, call.algorithm, call.registers}; }

}  // namespace

bool is_of_processes(const std::string& engine) {
  return engine == "mpi" || engine == "mpi_native" || engine == "gloo";
}

bool takes_processes(const harness::Options& options) {
  return std::ranges::any_of(options.names("engine"), is_of_processes);
}

bool runs_schedules(const std::string& engine) {
  return engine == "streams" || engine == "mpi" || engine == "simulated";
}

std::optional<std::string> refuses(const Call& call, const allreduce::Problem& problem) {
  if (is_of_processes(call.engine)) {
    if (const auto why = allreduce::rank_refuses(*problem.devices)) return why;
    if (problem.launch == allreduce::Launch::graph) return "nothing is recorded by processes; take --launch=eager";
  }
  if (call.engine == "mpi_native") return allreduce::mpi_native_refuses(problem, {call.collective, call.root});
  if (call.engine == "gloo") return allreduce::gloo_refuses(problem, call.collective);
  if (call.engine == "nccl") return allreduce::nccl_refuses(problem, nccl_call(call));
  if (call.engine == "direct") return allreduce::direct_refuses(problem, call.collective, call.algorithm);
  return streams_refuse(problem);
}

std::unique_ptr<allreduce::Program> prepare(const Call& call, const std::optional<allreduce::Schedule>& schedule,
                                            const allreduce::Problem& problem, harness::World& world) {
  if (call.engine == "nccl") return allreduce::prepare_nccl(problem, nccl_call(call));
  if (call.engine == "mpi_native") {
    return allreduce::prepare_mpi_native(problem, {call.collective, call.root}, world);
  }
  if (call.engine == "gloo") return allreduce::prepare_gloo(problem, call.algorithm, world);
  if (call.engine == "direct") return allreduce::prepare_direct(problem, call.algorithm);
  return call.engine == "mpi" ? allreduce::prepare_mpi(schedule.value(), problem, world)
                              : allreduce::prepare(schedule.value(), problem);
}

}  // namespace bench
