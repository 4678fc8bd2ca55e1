// SPDX-License-Identifier: Apache-2.0
// Gloo's all-reduces over TCP (https://github.com/facebookincubator/gloo) as a contender: what PyTorch trains with on
// CPUs. Its processes find each other over the world; it has no schedule, what it does is Gloo's affair.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "allreduce/engine.hpp"
#include "harness/world.hpp"

namespace allreduce {

// Why Gloo cannot do this: types, operations, placements and collectives that it has not, or no Gloo in this build.
std::optional<std::string> gloo_refuses(const Problem& problem, Collective collective);

// `algorithm`: "ring" (that of gloo::allreduce), "ring_chunked" or "halving_doubling". Collective over the world, which
// must be joined. Throws Error with Gloo's words when it fails.
std::unique_ptr<Program> prepare_gloo(const Problem& problem, const std::string& algorithm, harness::World& world);

}  // namespace allreduce
