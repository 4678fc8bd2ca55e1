// SPDX-License-Identifier: Apache-2.0
// The loss, as every backend whose logits lie in host memory computes it: softmax and cross entropy, in double.
#pragma once

#include "models/backend.hpp"

namespace models {

// Over logits [capacity][classes], whose gradient [capacity][classes] it fills. `in` keeps that memory alive.
LayerPointer make_cross_entropy(const TensorPointer& in, const float* logits, float* gradient,
                                const std::uint8_t* labels, Outcome& outcome);

}  // namespace models
