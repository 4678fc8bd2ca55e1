// SPDX-License-Identifier: Apache-2.0
// Makes the work of a stream take longer, so that others can be seen to wait for it: behind each piece of work the
// device is kept busy for a multiple of the time which that took, by its own clock. A CPU device spins on its worker, a
// GPU in a kernel of one thread, which keeps its stream busy and leaves the rest of the GPU to other streams.
#pragma once

#include <memory>

#include "harness/device/device.hpp"

namespace harness {

class Brake {
 public:
  virtual ~Brake() = default;
  // Both are in the stream's order: what is issued between them takes `factor` times as long.
  virtual void begin() = 0;
  virtual void end() = 0;
  // After a sync: what was added so far, in seconds.
  virtual double wasted_seconds() const = 0;
};

// A factor of 1 wastes nothing. The stream outlives the brake.
std::unique_ptr<Brake> make_brake(Stream& stream, double factor);

}  // namespace harness
