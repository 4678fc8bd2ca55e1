// SPDX-License-Identifier: Apache-2.0
#include "harness/device/narrow.hpp"

#include "harness/device/cpu.hpp"
#include "harness/device/cuda.hpp"
#include "harness/device/cuda_work.hpp"

namespace harness {

void narrow(Stream& stream, const float* from, Bfloat16* to, std::size_t count) {
  if (is_gpu(stream.device())) return narrow_on_gpu(stream, from, to, count);
  run(stream, [=] {
    for (std::size_t i = 0; i < count; ++i) to[i] = Bfloat16(from[i]);
  });
}

void widen(Stream& stream, const Bfloat16* from, float* to, std::size_t count) {
  if (is_gpu(stream.device())) return widen_on_gpu(stream, from, to, count);
  run(stream, [=] {
    for (std::size_t i = 0; i < count; ++i) to[i] = static_cast<float>(from[i]);
  });
}

}  // namespace harness
