// SPDX-License-Identifier: Apache-2.0
// What stands in for nccl.cpp in a build without NCCL.
#include "allreduce/engines/nccl.hpp"

namespace allreduce {

std::optional<std::string> nccl_refuses(const Problem&, const NcclCall&) {
  return "this build has no NCCL; build with 'cmake --preset cuda' where the CUDA toolkit and NCCL are";
}

std::unique_ptr<Program> prepare_nccl(const Problem& problem, const NcclCall& call) {
  throw harness::Error(*nccl_refuses(problem, call));
}

harness::Buffer nccl_allocate(harness::Device& device, std::size_t bytes) { return device.allocate(bytes); }

std::string nccl_version() { return ""; }

}  // namespace allreduce
