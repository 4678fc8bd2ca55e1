// SPDX-License-Identifier: Apache-2.0
// The engines by name: which run our schedules, which are of processes, what each refuses, and how a collective is
// prepared on each. Whoever times a collective, alone or inside training, has it from here.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "allreduce/engine.hpp"
#include "harness/options.hpp"
#include "harness/world.hpp"

namespace bench {

// Whether an engine has a process for each rank; and whether it goes through our schedules, or has its own way.
bool is_of_processes(const std::string& engine);
bool runs_schedules(const std::string& engine);
// Whether some engine of --engine has a process for each rank.
bool takes_processes(const harness::Options& options);

// A collective as an engine is asked for it.
struct Call {
  std::string engine = "streams";
  std::string algorithm = {};  // a kernel of direct's, or what Gloo or NCCL calls so; a schedule says it itself
  allreduce::Collective collective = allreduce::Collective::allreduce;
  allreduce::Rank root = 0;
  bool registers = false;  // vectors with NCCL
};

// Why the engine cannot do it.
std::optional<std::string> refuses(const Call& call, const allreduce::Problem& problem);

// What it does not refuse. The schedule is for the engines that run one; where ranks are processes, all prepare
// together. Throws as the engine's own prepare.
std::unique_ptr<allreduce::Program> prepare(const Call& call, const std::optional<allreduce::Schedule>& schedule,
                                            const allreduce::Problem& problem, harness::World& world);

}  // namespace bench
