// SPDX-License-Identifier: Apache-2.0
#include "harness/launcher.hpp"

#include <array>
#include <string_view>

#include "harness/text.hpp"

namespace harness {

namespace {

struct LauncherRow {
  std::string_view name, rank, size;
};
// Open MPI's stand first: srun and others may have set theirs too where mpirun runs inside of them.
constexpr std::array launchers = {LauncherRow{"Open MPI's mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                  LauncherRow{"MVAPICH's mpirun", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"},
                                  LauncherRow{"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
                                  LauncherRow{"an mpirun such as MPICH's", "PMI_RANK", "PMI_SIZE"},
                                  LauncherRow{"torchrun", "RANK", "WORLD_SIZE"}};

std::optional<int> number_of(const char* const* variables, std::string_view name) {
  for (; variables != nullptr && *variables != nullptr; ++variables) {
    const std::string_view variable = *variables;
    if (!variable.starts_with(name) || variable.substr(name.size(), 1) != "=") continue;
    const auto value = parse_integer(variable.substr(name.size() + 1), 0);
    if (value) return static_cast<int>(*value);
  }
  return std::nullopt;
}

}  // namespace

std::optional<Launcher> find_launcher(const char* const* variables) {
  for (const LauncherRow& row : launchers) {
    const auto rank = number_of(variables, row.rank), size = number_of(variables, row.size);
    if (rank && size && *rank < *size) return Launcher{std::string(row.name), *rank, *size};
  }
  return std::nullopt;
}

}  // namespace harness
