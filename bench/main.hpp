// SPDX-License-Identifier: Apache-2.0
// How every bench ends: bad input is one line and exit status 2, failed work one line and 1. After a wait that passed
// its deadline nothing may be freed, so the process leaves at once; its report was written after the last visit.
#pragma once

#include <cstdlib>
#include <exception>
#include <iostream>

#include "harness/device/device.hpp"
#include "harness/error.hpp"

namespace bench {

// Runs `body`, which gives the exit status, and turns what it throws into one.
template <typename Body>
int guarded(const char* program, Body&& body) {
  try {
    return body();
  } catch (const harness::UsageError& error) {
    std::cerr << program << ": " << error.what() << '\n';
    return 2;
  } catch (const harness::TimedOut& error) {
    std::cerr << program << ": " << error.what() << std::endl;
    std::_Exit(1);
  } catch (const std::exception& error) {
    std::cerr << program << ": " << error.what() << '\n';
    return 1;
  }
}

}  // namespace bench
