// SPDX-License-Identifier: Apache-2.0
// CPU virtual devices: each stream is a worker thread of its own, pinned to its device's cores where the machine has
// enough of them, and every device's memory is ordinary host memory that all may read. What only a CPU device can do,
// run a C++ function in stream order, is declared here; layers of a model are run by it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "harness/device/device.hpp"

namespace harness {

// Runs `task` on the stream's worker, in the stream's order (while recording, on each launch). An exception it throws
// is the stream's failure. Throws Error when the stream is not a CPU device's.
void run(Stream& stream, std::function<void()> task);

// How the workers of a set of devices wait for each other inside a task: they look again and again while each has a
// core of its own, and leave the core to the others at once where they share.
class Patience {
 public:
  // Throws Error when these are not CPU devices.
  explicit Patience(const Devices& devices);

  // Returns when `counter` has reached `value`; what was written before that by who set it is then visible. Throws
  // TimedOut past the devices' deadline: `names()` says who waits for what.
  template <typename Names>
  void wait(const std::atomic<std::uint64_t>& counter, std::uint64_t value, const Names& names) const {
    if (counter.load(std::memory_order_acquire) >= value) return;
    if (!wait_long(counter, value)) throw_timed_out(names());
  }

 private:
  bool wait_long(const std::atomic<std::uint64_t>& counter, std::uint64_t value) const;  // false: the deadline passed
  [[noreturn]] void throw_timed_out(const std::string& names) const;

  bool spin_;
  double timeout_seconds_;
};

// Whether all of them are CPU devices, whose workers can read and write each other's memory.
bool are_cpu_devices(const Devices& devices);

// `count` virtual devices, each computing with settings.threads threads.
std::unique_ptr<Devices> open_cpu_devices(int count, const DeviceSettings& settings);

}  // namespace harness
