// SPDX-License-Identifier: Apache-2.0
#include "bench/named_topology.hpp"

#include "harness/options.hpp"

namespace bench {

allreduce::Topology named_topology(const std::string& name, const std::string& missing,
                                   const allreduce::Constants& constants) {
  try {
    auto machine = allreduce::find_topology(name, constants);
    return missing == "none" ? machine : allreduce::without(machine, missing);
  } catch (const harness::Error& error) {
    throw harness::bad_value("topology", name, error.what());
  }
}

allreduce::Topology connected_topology(const std::string& name, const std::string& missing,
                                       const allreduce::Constants& constants) {
  auto machine = named_topology(name, missing, constants);
  try {
    allreduce::Router router(machine, allreduce::Mover::copy_engine);
    for (int rank = 1; rank < machine.size(); ++rank) router.between(0, rank);
  } catch (const harness::Error& error) {
    throw harness::bad_value("topology", name, error.what());
  }
  return machine;
}

}  // namespace bench
