// SPDX-License-Identifier: Apache-2.0
// The files of topologies/, as the build put them into the program: a binary that is copied elsewhere keeps them.
#pragma once

#include <span>
#include <string_view>

namespace allreduce {

struct TopologyFile {
  const char* name;  // without its ending
  const char* text;
};

std::span<const TopologyFile> topology_files();

// The text of the one of that name, which must be there.
const char* embedded_file(std::string_view name);

}  // namespace allreduce
