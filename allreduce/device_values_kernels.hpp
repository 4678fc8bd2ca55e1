// SPDX-License-Identifier: Apache-2.0
// The kernels of device_values.cpp, for cudaLaunchKernel; their arguments stand in device_values.cuh.
#pragma once

#include "harness/device/reduction.hpp"

namespace allreduce::kernels {

const void* fill_kernel(harness::Dtype dtype);
const void* count_wrong_kernel(harness::Dtype dtype);

}  // namespace allreduce::kernels
