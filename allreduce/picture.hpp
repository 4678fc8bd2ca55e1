// SPDX-License-Identifier: Apache-2.0
// A topology for people: as the matrix that nvidia-smi prints, as a tree, and as a drawing.
#pragma once

#include <string>

#include "allreduce/bound.hpp"
#include "allreduce/topology.hpp"

namespace allreduce {

// As `nvidia-smi topo -m` prints it; read_nvidia_smi reads it back.
std::string matrix_text(const Topology& topology);

// Sockets, switches and devices, each under what it hangs on, with the links between.
std::string tree_text(const Topology& topology);

// An SVG of its own: devices in the colours of the cut that bounds an all-reduce, links as wide as they are fast.
std::string svg_text(const Topology& topology, const Bound& bound);

}  // namespace allreduce
