// SPDX-License-Identifier: Apache-2.0
// Reads device lists and opens what they name. One row of `kinds` for each kind of device.
#include <array>
#include <charconv>
#include <set>

#include "harness/device/cpu.hpp"
#include "harness/device/cuda.hpp"
#include "harness/device/device.hpp"

namespace harness {

namespace {

constexpr int most_cpu_devices = 1024;

[[noreturn]] void refuse(std::string_view value, const std::string& why) {
  std::string text("--device=");
  throw UsageError(text.append(value).append(": ").append(why));
}

std::unique_ptr<Devices> open_cpu(std::string_view point, std::string_view count_text, const DeviceSettings& settings) {
  int count = 0;
  const auto* end = count_text.data() + count_text.size();
  const auto [stop, error] = std::from_chars(count_text.data(), end, count);
  if (error != std::errc() || stop != end || count < 1 || count > most_cpu_devices) {
    refuse(point, "a number of CPU devices from 1 to " + std::to_string(most_cpu_devices) +
                      " belongs after 'cpu:', as in cpu:2");
  }
  return open_cpu_devices(count, settings);
}

struct KindOfDevice {
  std::string_view name;
  std::unique_ptr<Devices> (*open)(std::string_view point, std::string_view rest, const DeviceSettings&);
};
constexpr std::array kinds = {KindOfDevice{"cpu", open_cpu}, KindOfDevice{"cuda", open_cuda_devices}};

std::string_view kind_of(std::string_view element) { return element.substr(0, element.find(':')); }

}  // namespace

std::string_view name(Route route) {
  constexpr std::array<std::string_view, 4> names = {"shared", "nvlink", "pcie", "staged"};
  return names[static_cast<std::size_t>(route)];
}

std::string default_point() { return count_gpus() > 0 ? "cuda" : "cpu:2"; }

std::vector<std::string> device_points(std::string_view list) {
  std::vector<std::string> points;
  std::string_view rest = list;
  while (true) {
    const auto comma = rest.find(',');
    const auto element = rest.substr(0, comma);
    if (element.empty()) refuse(list, "an element of the list is empty; write it as in cpu:1,cpu:2");
    const bool starts_with_digit = element[0] >= '0' && element[0] <= '9';
    if (!starts_with_digit) {
      points.emplace_back(element);
    } else if (points.empty()) {
      refuse(list, "its first element names no kind of device; write it as in cpu:2");
    } else if (kind_of(points.back()) == "cpu") {
      refuse(list,
             std::string("a CPU point takes one number; write cpu:").append(element).append(" for a further one"));
    } else {
      points.back().append(",").append(element);
    }
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  if (std::set<std::string>(points.begin(), points.end()).size() != points.size()) {
    refuse(list, "a point is named twice; each may stand once");
  }
  return points;
}

std::unique_ptr<Devices> open_devices(std::string_view point, const DeviceSettings& settings) {
  const auto name = kind_of(point);
  if (point.find('+') != std::string_view::npos) {
    refuse(point, "devices of several kinds in one point cannot be opened by this build");
  }
  for (const auto& kind : kinds) {
    if (kind.name != name) continue;
    const auto colon = point.find(':');
    return kind.open(point, colon == std::string_view::npos ? std::string_view() : point.substr(colon + 1), settings);
  }
  std::string known;
  for (const auto& kind : kinds) known.append(" ").append(kind.name);
  refuse(point, "this build has no devices of that kind; it has:" + known);
}

}  // namespace harness
