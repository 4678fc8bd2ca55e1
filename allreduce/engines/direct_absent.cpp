// SPDX-License-Identifier: Apache-2.0
// What stands in for direct.cpp in a build without CUDA.
#include "allreduce/engines/direct.hpp"

namespace allreduce {

std::optional<std::string> direct_refuses(const Problem&, Collective, std::string_view) {
  return "this build has no CUDA; build with 'cmake --preset cuda' where the CUDA toolkit is";
}

std::unique_ptr<Program> prepare_direct(const Problem& problem, std::string_view shot) {
  throw harness::Error(*direct_refuses(problem, Collective::allreduce, shot));
}

}  // namespace allreduce
