// SPDX-License-Identifier: Apache-2.0
// GPUs, for those who do not speak CUDA: this header builds everywhere, also where the build has no CUDA.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "harness/device/device.hpp"

namespace harness {

// GPUs that can be used now: none where this build has no CUDA, and where there is no driver or no device.
int count_gpus();

// Whether work on this device is issued by the thread that calls, instead of run by a worker of the host.
bool is_gpu(const Device& device);

// The GPUs of a list as it stands behind "cuda:": "" is all of them, "0,2" two ranks, "0*8" eight ranks on one GPU.
// `point` is the whole as it was written. Throws UsageError for a list that cannot be read, a GPU that is not there or
// is named twice, where there is no GPU at all, or where peers must reach each other (Transport::peer) and do not;
// throws Error when a GPU fails.
std::unique_ptr<Devices> open_cuda_devices(std::string_view point, std::string_view list,
                                           const DeviceSettings& settings);

// Adds the GPUs, what connects them, their driver and the CUDA libraries to a machine of the results' schema. Links
// are looked up, not measured.
void describe_gpus(nlohmann::json& machine);

}  // namespace harness
