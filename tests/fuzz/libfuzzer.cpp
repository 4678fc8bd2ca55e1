// SPDX-License-Identifier: Apache-2.0
// libFuzzer's side (https://llvm.org/docs/LibFuzzer.html): the target is named by the variable RINGMARK_FUZZ.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>

#include "tests/fuzz/targets.hpp"

namespace {

const fuzz::Target& chosen() {
  const char* name = std::getenv("RINGMARK_FUZZ");
  for (const fuzz::Target& target : fuzz::targets()) {
    if (name != nullptr && std::string(name) == target.name) return target;
  }
  std::cerr << "RINGMARK_FUZZ names no target; allowed:";
  for (const fuzz::Target& target : fuzz::targets()) std::cerr << ' ' << target.name;
  std::cerr << '\n';
  std::exit(2);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const fuzz::Target& target = chosen();
  target.read(std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}
