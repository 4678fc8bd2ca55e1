// SPDX-License-Identifier: Apache-2.0
// What stands in for device_values.cpp in a build without CUDA.
#include "allreduce/device_values.hpp"

namespace allreduce {

namespace {
constexpr const char* absent = "this build has no CUDA, and no values on GPUs";
}

bool has_device_values(const harness::Device&) { return false; }

void fill_on_device(harness::Stream&, const Pattern&, int, Numbers, std::byte*, std::size_t) {
  throw harness::Error(absent);
}

std::size_t count_wrong_on_device(harness::Stream&, const Pattern&, int, const std::byte*, std::size_t, Part) {
  throw harness::Error(absent);
}

}  // namespace allreduce
