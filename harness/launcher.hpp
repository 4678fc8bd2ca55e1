// SPDX-License-Identifier: Apache-2.0
// Who started this process, and whether it started others beside it: read from the variables that launchers set for
// each process of a job. So N copies of a program that know nothing of each other are noticed before they measure.
#pragma once

#include <optional>
#include <string>

namespace harness {

struct Launcher {
  std::string name;  // "Open MPI's mpirun"
  int rank = 0, size = 1;
};

// From variables as `environ` has them, ended by a null; nothing where none tells of a launcher. The variables of a
// Slurm allocation alone, without srun, are none.
std::optional<Launcher> find_launcher(const char* const* variables);

}  // namespace harness
