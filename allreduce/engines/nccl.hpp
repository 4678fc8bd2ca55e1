// SPDX-License-Identifier: Apache-2.0
// NVIDIA's own collectives (https://docs.nvidia.com/deeplearning/nccl/) as a contender: one process, a communicator for
// all GPUs of a point, one call a rank inside a group. It has no schedule; what it does is NCCL's affair.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "allreduce/engine.hpp"

namespace allreduce {

struct NcclCall {
  Collective collective = Collective::allreduce;
  Rank root = 0;  // of broadcast and reduce
  std::string algorithm =
      "auto";              // a value of NCCL_ALGO (ring, tree, nvls, ...) for the communicator, or NCCL's choice
  bool registers = false;  // the vectors with the communicator, for which they should come from nccl_allocate
};

// Why NCCL cannot do this; nothing when it can. Also says when this build has no NCCL.
std::optional<std::string> nccl_refuses(const Problem& problem, const NcclCall& call);

// Throws Error with NCCL's words when it fails.
std::unique_ptr<Program> prepare_nccl(const Problem& problem, const NcclCall& call);

// Memory of the device as NCCL wants it for vectors that are registered; of a device that is no GPU, or where NCCL is
// older than 2.19, the device's own. Throws as Device::allocate does.
harness::Buffer nccl_allocate(harness::Device& device, std::size_t bytes);

// Of the library that was loaded, "2.28.9"; empty in a build without NCCL.
std::string nccl_version();

}  // namespace allreduce
