// SPDX-License-Identifier: Apache-2.0
#include "harness/screen.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace harness {

Screen screen_of(int descriptor) {
  if (isatty(descriptor) != 1) return {};
  Screen screen;
  winsize size{};
  if (ioctl(descriptor, TIOCGWINSZ, &size) == 0) screen.width = size.ws_col;
  const char* refused = std::getenv("NO_COLOR");
  const char* terminal = std::getenv("TERM");
  const bool dumb = terminal == nullptr || std::string_view(terminal) == "dumb";
  screen.colour = !dumb && (refused == nullptr || *refused == '\0');
  return screen;
}

}  // namespace harness
