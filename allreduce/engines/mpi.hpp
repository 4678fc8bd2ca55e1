// SPDX-License-Identifier: Apache-2.0
// All-reduce, and the other collectives, by processes over MPI: our schedules, each copy between ranks a message
// (engine `mpi`), and the library's own collectives as a contender (engine `mpi_native`), which have no schedule; what
// they do is the library's affair.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "allreduce/engine.hpp"
#include "harness/world.hpp"

namespace allreduce {

// Bytes of a message; a longer copy goes as several, since MPI counts with an int.
inline constexpr std::size_t longest_mpi_message = std::size_t{1} << 30;

// `problem` has this process's one device and vectors. Collective over the world, which must be joined. Throws Error
// for a schedule that is not proved or is for another number of ranks, and in a build without MPI.
std::unique_ptr<Program> prepare_mpi(const Schedule& schedule, const Problem& problem, harness::World& world,
                                     std::size_t longest_message = longest_mpi_message);

struct NativeCall {
  Collective collective = Collective::allreduce;
  Rank root = 0;  // of broadcast and reduce
};

// Why MPI's own collectives cannot do this: types, operations and layouts that MPI does not know.
std::optional<std::string> mpi_native_refuses(const Problem& problem, const NativeCall& call);

// Collective over the world, which must be joined. Throws Error with MPI's words when it fails.
std::unique_ptr<Program> prepare_mpi_native(const Problem& problem, const NativeCall& call, harness::World& world);

}  // namespace allreduce
