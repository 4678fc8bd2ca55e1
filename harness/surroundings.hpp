// SPDX-License-Identifier: Apache-2.0
// What happens around a measurement: whether others had the processors, and whether these were slowed down, by heat or
// by a control group's quota. Two looks, before and after, tell; what the system does not show is not flagged.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace harness {

// Seconds of processors are sums over all of them since the system or the process began.
struct Surroundings {
  double at = 0;    // seconds on the steady clock
  double busy = 0;  // of the whole machine, with what a hypervisor gave to others
  double own = 0;   // of this process
  int processors = 0;
  std::int64_t slowed = 0;  // times that a core was too hot for its clock, or the group had used up its quota
};

// `root` is where proc/ and sys/ are. No processors: the load is unknown, as it is among several processes of one job,
// whose work is no one else's.
Surroundings look_around(const std::filesystem::path& root = "/");

// "load": others had more than a tenth of all processor time in between. "throttled": slowed down in between.
std::vector<std::string> flags_between(const Surroundings& begin, const Surroundings& end);

}  // namespace harness
