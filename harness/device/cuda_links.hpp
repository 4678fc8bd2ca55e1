// SPDX-License-Identifier: Apache-2.0
// What connects two GPUs, as the driver knows it: cudaDeviceGetP2PAttribute, and NVML for the NVLinks. NVML is loaded
// when the program runs, and is missed by nobody where it is not there.
#pragma once

#include <string>

#include "harness/device/device.hpp"

namespace harness {

struct GpuLink {
  Route route = Route::staged;
  int nvlinks = 0;  // active ones between the two, or from `reader` to a switch; 0 where NVML is not there
};

// How GPU `reader` reaches the memory of GPU `owner`.
GpuLink find_link(int reader, int owner);

// Of the NVIDIA driver, as NVML tells it; empty where it does not.
std::string driver_version();

// "0000:1b:00.0"
std::string pci_bus_id(int gpu);

}  // namespace harness
