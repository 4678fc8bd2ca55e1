// SPDX-License-Identifier: Apache-2.0
// All-reduces of small vectors as inference engines do them: one kernel a rank, which reads its peers' memory and meets
// them over flags there, so that a run is one launch a GPU and no event. After the custom all-reduces of TensorRT-LLM
// and vLLM (2024). A vector is first copied to scratch that peers read; what stands where they may read is thus no
// affair of the caller's, and a run in place is as one out of place. For up to eight GPUs that reach each other's
// memory.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "allreduce/engine.hpp"

namespace allreduce {

// Why `shot` ("one_shot": every rank reads all vectors; "two_shot": slices, then the sums of them) cannot do this;
// nothing when it can. Also says when this build has no CUDA.
std::optional<std::string> direct_refuses(const Problem& problem, Collective collective, std::string_view shot);

// What is not refused. A rank that waits more than ten seconds for another gives up: from then on `sync` throws an
// Error that names both.
std::unique_ptr<Program> prepare_direct(const Problem& problem, std::string_view shot);

}  // namespace allreduce
