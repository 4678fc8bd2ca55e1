// SPDX-License-Identifier: Apache-2.0
// What stands in for mpi.cpp and mpi_native.cpp in a build without MPI.
#include "allreduce/engines/mpi.hpp"

namespace allreduce {

std::unique_ptr<Program> prepare_mpi(const Schedule&, const Problem&, harness::World&, std::size_t) {
  throw harness::Error(harness::missing_mpi());
}

std::optional<std::string> mpi_native_refuses(const Problem&, const NativeCall&) { return harness::missing_mpi(); }

std::unique_ptr<Program> prepare_mpi_native(const Problem&, const NativeCall&, harness::World&) {
  throw harness::Error(harness::missing_mpi());
}

}  // namespace allreduce
