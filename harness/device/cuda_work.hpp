// SPDX-License-Identifier: Apache-2.0
// What narrow.hpp and brake.hpp do on a GPU. Without CUDA nothing calls these.
#pragma once

#include <cstddef>
#include <memory>

#include "harness/device/brake.hpp"
#include "harness/device/device.hpp"

namespace harness {

void narrow_on_gpu(Stream& stream, const float* from, Bfloat16* to, std::size_t count);
void widen_on_gpu(Stream& stream, const Bfloat16* from, float* to, std::size_t count);
std::unique_ptr<Brake> make_gpu_brake(Stream& stream, double factor);

}  // namespace harness
