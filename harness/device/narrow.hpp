// SPDX-License-Identifier: Apache-2.0
// Floats as bfloat16 and back, on any kind of device: what is sent in half the bytes.
#pragma once

#include <cstddef>

#include "harness/device/device.hpp"

namespace harness {

// to[i] = from[i] for `count` elements, rounded to nearest even, in the stream's order. Both ends are memory of the
// stream's device.
void narrow(Stream& stream, const float* from, Bfloat16* to, std::size_t count);

// The same back, which rounds nothing.
void widen(Stream& stream, const Bfloat16* from, float* to, std::size_t count);

}  // namespace harness
