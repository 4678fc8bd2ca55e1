// SPDX-License-Identifier: Apache-2.0
// What stands in for gloo.cpp in a build without Gloo, or without the MPI that it is started over.
#include "allreduce/engines/gloo.hpp"

namespace allreduce {

std::optional<std::string> gloo_refuses(const Problem&, Collective) {
  return "this build has no Gloo; install libgloo-dev, beside an MPI, and build again";
}

std::unique_ptr<Program> prepare_gloo(const Problem& problem, const std::string&, harness::World&) {
  throw harness::Error(*gloo_refuses(problem, Collective::allreduce));
}

}  // namespace allreduce
