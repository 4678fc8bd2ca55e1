// SPDX-License-Identifier: Apache-2.0
// The threads of kernels that wait for each other, each a fiber: which goes on is drawn at random, until it meets its
// block, looks at the clock as whoever waits does, or ends.
#pragma once

#include <functional>

#include "tests/fake_cuda/machine.hpp"

namespace fake {

// `thread` is what each does, with blockIdx and threadIdx set. Ends the process when the launch does not fit on its GPU
// beside those that are there.
Bits begin_fibers(const Launch& launch, std::function<void()> thread);

}  // namespace fake
