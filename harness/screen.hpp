// SPDX-License-Identifier: Apache-2.0
// The terminal that something is printed on: how wide it is, and whether colours may be used. What is piped into a file
// or a program is no terminal: it has no width and no colours.
#pragma once

#include <cstddef>

namespace harness {

struct Screen {
  std::size_t width = 0;  // characters in a line; 0 where there is no end to it
  bool colour = false;
};

// Of STDOUT_FILENO or STDERR_FILENO. NO_COLOR (no-color.org) and TERM=dumb turn colours off.
Screen screen_of(int descriptor);

}  // namespace harness
