// SPDX-License-Identifier: Apache-2.0
// Where topologies come from: the files of topologies/, which are part of the program, families by formula, files in
// the forms that people have, and machines joined by a network. See topologies/README.md for the format and the names.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "allreduce/simulate.hpp"
#include "allreduce/topology.hpp"

namespace allreduce {

// The constants of topologies/constants.json, each [value, source].
class Constants {
 public:
  Constants();                                // as the program was built with
  explicit Constants(nlohmann::json values);  // for tests, and to see what one of them is worth

  // SI units. Throws harness::Error for one that is not there.
  double operator()(const std::string& section, const std::string& name, const std::string& constant) const;
  LinkClass link_class(const std::string& name) const;  // of links or fabrics; throws UsageError for an unknown one
  StreamsCosts streams() const;
  const nlohmann::json& values() const { return values_; }

 private:
  nlohmann::json values_;
};

// Names of the files of topologies/, sorted.
std::vector<std::string> topology_names();

// "dgx-a100", "dgx-a100:4" (its first four devices), "dgx-h100*16" (so many of them over their network), "ring:8@pcie4"
// (a family, with a link class), a file, or "auto", for which nvidia-smi is asked. Throws harness::UsageError, of one
// line, for anything else.
Topology find_topology(const std::string& text, const Constants& constants);

// From the text of a file in any known form.
Topology parse_topology(const std::string& text, const std::string& name, const Constants& constants);

// Our own format.
Topology topology_from_json(const nlohmann::json& json, const std::string& name, int hosts, const Constants& constants);

}  // namespace allreduce
