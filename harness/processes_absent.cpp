// SPDX-License-Identifier: Apache-2.0
// What stands in for processes_mpi.cpp in a build without MPI.
#include "harness/error.hpp"
#include "harness/processes.hpp"

namespace harness {

bool has_mpi() { return false; }

std::unique_ptr<Processes> open_mpi(const std::optional<Launcher>&) { throw UsageError(missing_mpi()); }

}  // namespace harness
