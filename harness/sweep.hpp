// SPDX-License-Identifier: Apache-2.0
// From words to points. A sweep is a product of axes: "--bytes=1K:64M:x4 --algorithm=ring,tree" is two axes, and every
// pair of their values is a point to measure. The order is fixed, so that two runs of one command line up.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "harness/options.hpp"

namespace harness {

// Sizes in bytes from a list of sizes and ranges: "0,4,1K", "1K:64M:x4", "1K:64M:+1M". A range ends at or below its
// second size. Throws UsageError whose text says what is wrong with `text`; it does not know the option's name.
std::vector<std::size_t> parse_sizes(std::string_view text);

struct Axis {
  std::string name;
  std::vector<nlohmann::json> values;
};

// All combinations, each an object {name: value, ...}; the first axis changes slowest. No axes make one empty point; an
// axis without values makes none.
std::vector<nlohmann::json> points(const std::vector<Axis>& axes);

}  // namespace harness
