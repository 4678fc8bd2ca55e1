// SPDX-License-Identifier: Apache-2.0
// What no all-reduce on shared memory can do without: each of n inputs of S bytes read once, each of n outputs written
// once, 2nS bytes. The yardstick does just that, with as many threads as the devices have streams, each on its part of
// all vectors, no order between them and no message: an all-reduce whose hand-overs cost nothing. Run in the same
// rounds at the same footprint, its time is the bound that CPU devices are held against.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "harness/device/device.hpp"

namespace bench {

class Yardstick {
 public:
  // Shared memory is what CPU devices have; of other devices this is no bound.
  static bool fits(const harness::Devices& devices);

  // `inputs` and `outputs`: `bytes` of each rank, the same vectors or others. Throws harness::Error where a device is
  // not a CPU's.
  Yardstick(harness::Devices& devices, std::vector<const std::byte*> inputs, std::vector<std::byte*> outputs,
            std::size_t bytes);

  // Seconds of one run, as the mean of `runs` back to back, of the slowest thread. The vectors hold no sum afterwards.
  double time(int runs);

 private:
  harness::Devices& devices_;
  std::vector<const std::byte*> inputs_;
  std::vector<std::byte*> outputs_;
  std::size_t bytes_;
  std::vector<std::unique_ptr<harness::Stream>> streams_;
};

}  // namespace bench
