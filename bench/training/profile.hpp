// SPDX-License-Identifier: Apache-2.0
// What bench_model measured of a model layer by layer, as a forecast needs it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace bench {

struct LayerTimes {
  std::string name = {};
  double forward_seconds = 0, backward_seconds = 0;
  std::size_t parameters = 0;
};

// Of one batch.
struct Profile {
  int batch = 0;
  double optimizer_seconds = 0;
  std::vector<LayerTimes> layers = {};
};

// Those of a model in the text of a result file, one a batch; what was not measured is 0. Throws UsageError.
std::vector<Profile> parse_profiles(std::string_view text, const std::string& model);

}  // namespace bench
