// SPDX-License-Identifier: Apache-2.0
// The host's clock for everything that is timed outside of a device's streams: it never steps back.
#pragma once

#include <chrono>

namespace harness {

// Seconds since a moment that stays the same while the process runs.
inline double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace harness
