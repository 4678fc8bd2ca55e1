// SPDX-License-Identifier: Apache-2.0
#include "harness/sweep.hpp"

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>

#include "harness/text.hpp"

namespace harness {
namespace {

constexpr std::size_t most_sizes = 100'000;  // more is a slip of the keyboard, such as 1:64G:+1

std::size_t parse_size(const std::string& text) {
  if (const auto bytes = parse_bytes(text)) return *bytes;
  throw UsageError("'" + text + "' is not a size in bytes such as 64K, 1.5M or 1G");
}

void append_range(const std::string& text, std::vector<std::size_t>& sizes) {
  const std::vector<std::string> parts = split(text, ':');
  if (parts.size() != 3 || parts[2].empty()) {
    throw UsageError("the range '" + text + "' needs two sizes and a step, as in 1K:64M:x4 or 1K:64M:+1M");
  }
  const std::size_t first = parse_size(parts[0]), last = parse_size(parts[1]);
  if (first > last) throw UsageError("the range begins at " + parts[0] + ", above its end " + parts[1]);
  const std::string amount = parts[2].substr(1);
  const bool multiplies = parts[2][0] == 'x';
  std::size_t step = 0;
  if (multiplies) {
    const auto factor = parse_integer(amount, 2);
    if (!factor) throw UsageError("the factor '" + amount + "' is not a whole number of at least 2");
    if (first == 0) throw UsageError("a range from 0 cannot grow by a factor; list the 0, as in 0,1K:64M:x4");
    step = static_cast<std::size_t>(*factor);
  } else if (parts[2][0] == '+') {
    step = parse_size(amount);
    if (step == 0) throw UsageError("the step of the range '" + text + "' is 0 bytes");
  } else {
    throw UsageError("the step '" + parts[2] + "' is neither a factor such as x4 nor an increment such as +1M");
  }
  for (std::size_t size = first;; size = multiplies ? size * step : size + step) {
    if (sizes.size() == most_sizes) throw UsageError("more than " + std::to_string(most_sizes) + " sizes");
    sizes.push_back(size);
    // Compared so that neither side can overflow.
    if (multiplies ? size > last / step : step > last - size) return;
  }
}

}  // namespace

std::vector<std::size_t> parse_sizes(std::string_view text) {
  std::vector<std::size_t> sizes;
  for (const std::string& item : split(text, ',')) {
    if (item.find(':') != std::string::npos) {
      append_range(item, sizes);
    } else {
      sizes.push_back(parse_size(item));
    }
  }
  std::set<std::size_t> seen;
  for (const std::size_t size : sizes) {
    if (!seen.insert(size).second) throw UsageError(std::to_string(size) + " bytes are listed twice");
  }
  return sizes;
}

std::vector<nlohmann::json> points(const std::vector<Axis>& axes) {
  std::vector<nlohmann::json> result{nlohmann::json::object()};
  for (const Axis& axis : axes) {
    std::vector<nlohmann::json> longer;
    longer.reserve(result.size() * axis.values.size());
    for (const nlohmann::json& point : result) {
      for (const nlohmann::json& value : axis.values) {
        longer.push_back(point);
        longer.back()[axis.name] = value;
      }
    }
    result = std::move(longer);
  }
  return result;
}

}  // namespace harness
