// SPDX-License-Identifier: Apache-2.0
#include "harness/surroundings.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "harness/clock.hpp"
#include "harness/launcher.hpp"
#include "harness/machine.hpp"
#include "harness/text.hpp"

namespace harness {
namespace {

using Path = std::filesystem::path;

constexpr double most_load = 0.1;
constexpr double shortest = 0.2;  // seconds: the system counts in hundredths of one

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

double own_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
}

bool has_peers() {
  const auto launcher = find_launcher(environ);
  return launcher && launcher->size > 1;
}

// The lines of /proc/stat (proc(5)): "cpu  user nice system idle iowait irq softirq steal guest guest_nice", the sum
// over all, then one for each processor; guests are in user and nice already.
void read_processors(const Path& file, Surroundings& now) {
  std::ifstream stream(file);
  const double ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  constexpr std::size_t idle = 3, iowait = 4, fields = 8;
  std::string name;
  while (stream >> name && name.starts_with("cpu")) {
    for (std::size_t field = 0; field < fields; ++field) {
      double count = 0;
      stream >> count;
      if (name == "cpu" && field != idle && field != iowait) now.busy += count / ticks;
    }
    if (name != "cpu") ++now.processors;
    std::getline(stream, name);
  }
}

std::int64_t count_in(const Path& file) {
  std::ifstream stream(file);
  std::int64_t count = 0;
  return stream >> count ? count : 0;
}

}  // namespace

Surroundings look_around(const Path& root) {
  Surroundings now{.at = steady_seconds(), .own = own_seconds()};
  if (!has_peers()) read_processors(root / "proc/stat", now);
  const Path cpus = root / "sys/devices/system/cpu";
  for (int cpu = 0; cpu < now.processors; ++cpu) {
    now.slowed += count_in(cpus / ("cpu" + std::to_string(cpu)) / "thermal_throttle/core_throttle_count");
  }
  now.slowed += throttled_periods(root);
  return now;
}

std::vector<std::string> flags_between(const Surroundings& begin, const Surroundings& end) {
  std::vector<std::string> flags;
  const double seconds = end.at - begin.at;
  const double others = (end.busy - begin.busy) - (end.own - begin.own);
  if (seconds >= shortest && others > most_load * seconds * end.processors && end.processors > 0) {
    flags.emplace_back("load");
  }
  if (end.slowed > begin.slowed) flags.emplace_back("throttled");
  return flags;
}

}  // namespace harness
