// SPDX-License-Identifier: Apache-2.0
// Everything that reads what others have written, by name: the sizes and options of a command line, and each kind of
// file. A target is handed any bytes. What is wrong with them is a harness::UsageError of one line, which it catches;
// anything else that happens is a fault of the reader.
#pragma once

#include <span>
#include <string>

namespace fuzz {

struct Target {
  const char* name;
  void (*read)(const std::string& bytes);
};

std::span<const Target> targets();

}  // namespace fuzz
