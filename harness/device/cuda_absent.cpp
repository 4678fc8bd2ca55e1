// SPDX-License-Identifier: Apache-2.0
// What stands in for cuda.cpp in a build without CUDA.
#include "harness/device/cuda.hpp"
#include "harness/device/cuda_work.hpp"

namespace harness {

namespace {

constexpr const char* no_gpu = "this build has no CUDA, so this is no GPU's stream";

}  // namespace

int count_gpus() { return 0; }

bool is_gpu(const Device&) { return false; }

std::unique_ptr<Devices> open_cuda_devices(std::string_view point, std::string_view, const DeviceSettings&) {
  throw UsageError(std::string("--device=")
                       .append(point)
                       .append(": this build has no CUDA; build with 'cmake --preset cuda' where the CUDA toolkit is "
                               "(12.4 or later, nvcc on PATH), or take cpu:2"));
}

void describe_gpus(nlohmann::json&) {}

void narrow_on_gpu(Stream&, const float*, Bfloat16*, std::size_t) { throw Error(no_gpu); }
void widen_on_gpu(Stream&, const Bfloat16*, float*, std::size_t) { throw Error(no_gpu); }
std::unique_ptr<Brake> make_gpu_brake(Stream&, double) { throw Error(no_gpu); }

}  // namespace harness
