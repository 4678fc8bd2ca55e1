// SPDX-License-Identifier: Apache-2.0
// The backends that this build has for CPU devices, for tests that hold for all of them.
#pragma once

#include <string>
#include <vector>

#include "models/backend.hpp"

namespace models {

inline std::vector<std::string> available_backends() {
  std::vector<std::string> names;
  for (const auto& row : backends()) {
    if (row.make && !row.on_gpu) names.emplace_back(row.name);
  }
  return names;
}

}  // namespace models
