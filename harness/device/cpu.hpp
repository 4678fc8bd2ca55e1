// SPDX-License-Identifier: Apache-2.0
// CPU virtual devices: each stream is a worker thread of its own, pinned to its device's cores where the machine has
// enough of them, and every device's memory is ordinary host memory that all may read. What only a CPU device can do,
// run a C++ function in stream order, is declared here; layers of a model are run by it.
#pragma once

#include <functional>
#include <memory>

#include "harness/device/device.hpp"

namespace harness {

// Runs `task` on the stream's worker, in the stream's order (while recording, on each launch). An exception it throws
// is the stream's failure. Throws Error when the stream is not a CPU device's.
void run(Stream& stream, std::function<void()> task);

// `count` virtual devices, each computing with settings.threads threads.
std::unique_ptr<Devices> open_cpu_devices(int count, const DeviceSettings& settings);

}  // namespace harness
