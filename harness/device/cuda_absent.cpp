// SPDX-License-Identifier: Apache-2.0
// What stands in for cuda.cpp in a build without CUDA.
#include "harness/device/cuda.hpp"

namespace harness {

int count_gpus() { return 0; }

bool is_gpu(const Device&) { return false; }

std::unique_ptr<Devices> open_cuda_devices(std::string_view point, std::string_view, const DeviceSettings&) {
  throw UsageError(std::string("--device=")
                       .append(point)
                       .append(": this build has no CUDA; build with 'cmake --preset cuda' where the CUDA toolkit is "
                               "(12.4 or later, nvcc on PATH), or take cpu:2"));
}

void describe_gpus(nlohmann::json&) {}

}  // namespace harness
