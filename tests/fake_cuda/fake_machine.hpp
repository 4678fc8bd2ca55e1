// SPDX-License-Identifier: Apache-2.0
// The fake machine as tests set it up: variables that the fake CUDA libraries read again at each restart. The binary
// must run with the folder of those libraries in LD_LIBRARY_PATH; without it the tests fail, they are never skipped.
#pragma once

#include <dlfcn.h>

#include <cstdlib>
#include <string>

#include "harness/error.hpp"

namespace fake_cuda {

struct MachineSettings {
  int gpus = 8;
  std::string peers = "all";  // all, none, or pairs as in 0-1,2-3
  int seed = 1;
  std::string fail = {};     // function:n:code
  std::string corrupt = {};  // 0>1
  int hang = 0;              // the copy of that number never ends
  std::size_t memory_bytes = std::size_t{1} << 28U;
};

template <typename Function>
Function* find(const char* name) {
  auto* function = reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
  if (!function) throw harness::Error("the fake CUDA libraries are not in LD_LIBRARY_PATH");
  return function;
}

// The work issued from now on runs in other orders.
inline void reseed(unsigned long seed) { find<void(unsigned long)>("fake_cuda_seed")(seed); }

inline void restart(const MachineSettings& settings) {
  const auto set = [](const char* name, const std::string& value) { setenv(name, value.c_str(), 1); };
  set("FAKE_CUDA_GPUS", std::to_string(settings.gpus));
  set("FAKE_CUDA_PEERS", settings.peers);
  set("FAKE_CUDA_SEED", std::to_string(settings.seed));
  set("FAKE_CUDA_FAIL", settings.fail);
  set("FAKE_CUDA_CORRUPT", settings.corrupt);
  set("FAKE_CUDA_HANG", std::to_string(settings.hang));
  set("FAKE_CUDA_MEMORY", std::to_string(settings.memory_bytes));
  find<void()>("fake_cuda_reset")();
}

}  // namespace fake_cuda
