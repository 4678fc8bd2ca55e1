// SPDX-License-Identifier: Apache-2.0
// The machines of --topology and --without, one at a time.
#pragma once

#include <string>

#include "allreduce/topologies.hpp"

namespace bench {

// A machine without what is missing ("none": nothing). Throws UsageError for what cannot be read.
allreduce::Topology named_topology(const std::string& name, const std::string& missing,
                                   const allreduce::Constants& constants);

// The same, where rank 0 can reach all others; UsageError where it cannot.
allreduce::Topology connected_topology(const std::string& name, const std::string& missing,
                                       const allreduce::Constants& constants);

}  // namespace bench
