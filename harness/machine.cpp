// SPDX-License-Identifier: Apache-2.0
#include "harness/machine.hpp"

#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/device/cuda.hpp"
#include "harness/error.hpp"
#include "harness/text.hpp"

namespace harness {
namespace {

using nlohmann::json;
using Path = std::filesystem::path;

constexpr std::string_view white = " \t\r\n";

std::string trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(white);
  if (first == std::string_view::npos) return "";
  return std::string(text.substr(first, text.find_last_not_of(white) - first + 1));
}

std::string first_line(const Path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return trimmed(line);
}

// What a folder holds, sorted; nothing where there is no such folder.
std::vector<Path> entries(const Path& folder) {
  std::vector<Path> paths;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    paths.push_back(entry->path());
  }
  std::ranges::sort(paths);
  return paths;
}

// Whether the name is the prefix and a number: cpu0, node12.
bool numbered(const Path& path, const std::string& prefix) {
  const std::string name = path.filename().string();
  return name.starts_with(prefix) && parse_integer(name.substr(prefix.size()), 0).has_value();
}

// The lines "key : value" of /proc/cpuinfo and /proc/meminfo, "key=value" of os-release: each with the separator given.
std::vector<std::pair<std::string, std::string>> fields(const Path& path, char separator) {
  std::vector<std::pair<std::string, std::string>> result;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::size_t middle = line.find(separator);
    if (middle == std::string::npos) continue;
    result.emplace_back(trimmed(line.substr(0, middle)), trimmed(line.substr(middle + 1)));
  }
  return result;
}

using Core = std::pair<std::string, std::string>;  // package and core

std::set<Core> cores_of_cpuinfo(const std::vector<std::pair<std::string, std::string>>& cpuinfo) {
  std::set<Core> cores;
  std::string package;
  for (const auto& [key, value] : cpuinfo) {
    if (key == "physical id") package = value;
    if (key == "core id") cores.emplace(package, value);  // follows its physical id
  }
  return cores;
}

std::set<Core> cores_of_sysfs(const Path& cpus) {
  std::set<Core> cores;
  for (const Path& cpu : entries(cpus)) {
    const std::string core = first_line(cpu / "topology/core_id");
    if (numbered(cpu, "cpu") && !core.empty()) cores.emplace(first_line(cpu / "topology/physical_package_id"), core);
  }
  return cores;
}

void add_cores(json& cpu, const std::set<Core>& cores) {
  if (cores.empty()) return;
  std::set<std::string> packages;
  for (const Core& core : cores) packages.insert(core.first);
  cpu["sockets"] = packages.size();
  cpu["cores"] = cores.size();
}

// Those that decide how fast a reduction or a convolution is.
json instruction_sets(const std::string& flags) {
  const std::set<std::string> known{"sse4_2",      "avx",      "avx2",     "fma",         "f16c",
                                    "avx_vnni",    "avx512f",  "avx512bw", "avx512_vnni", "avx512_bf16",
                                    "avx512_fp16", "amx_tile", "amx_bf16", "amx_int8",    "asimd",
                                    "asimdhp",     "sve",      "sve2",     "bf16"};
  json found = json::array();
  for (const std::string& flag : split(flags, ' ')) {
    if (known.contains(flag)) found.push_back(flag);
  }
  return found;
}

json caches(const Path& folder) {
  json sizes = json::object();
  for (const Path& cache : entries(folder)) {
    const std::string level = first_line(cache / "level"), type = first_line(cache / "type");
    const auto bytes = parse_bytes(first_line(cache / "size"));
    if (level.empty() || !bytes) continue;
    sizes["L" + level + (type == "Data" ? "d" : type == "Instruction" ? "i" : "")] = *bytes;
  }
  return sizes;
}

// How many cores' worth of time a control group allows, from its file or files; nothing for no limit.
std::optional<double> quota(const Path& group) {
  std::vector<std::string> words = split(first_line(group / "cpu.max"), ' ');  // version 2: "150000 100000"
  if (words.size() != 2) words = {first_line(group / "cpu.cfs_quota_us"), first_line(group / "cpu.cfs_period_us")};
  const auto allowed = parse_real(words[0]), period = parse_real(words[1]);
  if (!allowed || !period || *allowed <= 0 || *period <= 0) return std::nullopt;  // "max", and -1 in version 1
  return *allowed / *period;
}

// Bytes that a control group may still take: up to its limit, with the file cache that would be given up for them.
std::optional<double> room(const Path& group) {
  const auto number = [&](const char* name) { return parse_real(first_line(group / name)); };
  const auto cache_of = [&](std::string_view entry) {
    for (const auto& [key, value] : fields(group / "memory.stat", ' ')) {
      if (key == entry) return parse_real(value).value_or(0);
    }
    return 0.0;
  };
  if (const auto limit = number("memory.max"), used = number("memory.current"); limit && used) {  // version 2
    return *limit - *used + cache_of("inactive_file");
  }
  const auto limit = number("memory.limit_in_bytes"), used = number("memory.usage_in_bytes");
  if (!limit || !used) return std::nullopt;
  return *limit - *used + cache_of("total_inactive_file");
}

// Negated, so that the smallest is that of the group that was stopped most often.
std::optional<double> stops(const Path& group) {
  for (const auto& [key, value] : fields(group / "cpu.stat", ' ')) {
    const auto count = key == "nr_throttled" ? parse_real(value) : std::nullopt;
    if (count) return -*count;
  }
  return std::nullopt;
}

// The smallest that `limit` gives for this process's group and those above it. A container may see its own group as the
// topmost one while /proc/self/cgroup gives the host's path, so folders that are not there count for nothing.
std::optional<double> smallest_of_groups(const Path& root, std::optional<double> (*limit)(const Path& group)) {
  std::optional<double> smallest;
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> parts = split(line, ':');  // hierarchy, controllers, path
    if (parts.size() < 3) continue;
    const Path mount = root / "sys/fs/cgroup" / parts[1];  // version 2 names no controllers
    for (Path group = Path(parts[2]).relative_path();; group = group.parent_path()) {
      const auto found = limit(mount / group);
      if (found && (!smallest || *found < *smallest)) smallest = found;
      if (group.empty()) break;
    }
  }
  return smallest;
}

int allowed_cores() {
  constexpr int most = 65536;
  const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(CPU_ALLOC(most), [](cpu_set_t* s) { CPU_FREE(s); });
  const std::size_t bytes = CPU_ALLOC_SIZE(most);
  if (!set || sched_getaffinity(0, bytes, set.get()) != 0) return 1;
  return CPU_COUNT_S(bytes, set.get());
}

json load_average() {
  double load = 0;
  return getloadavg(&load, 1) == 1 ? json(load) : json(nullptr);
}

std::string libc_version() {
  std::array<char, 64> name{};
  return confstr(_CS_GNU_LIBC_VERSION, name.data(), name.size()) > 0 ? name.data() : "unknown";
}

std::string os_name() {
  for (const auto& [key, value] : fields("/etc/os-release", '=')) {
    if (key != "PRETTY_NAME") continue;
    return value.size() >= 2 && value.front() == '"' ? value.substr(1, value.size() - 2) : value;
  }
  return "unknown";
}

}  // namespace

json describe_cpu(const Path& root) {
  const Path cpus = root / "sys/devices/system/cpu";
  const auto cpuinfo = fields(root / "proc/cpuinfo", ':');
  json cpu = json::object();
  std::size_t threads = 0;
  for (const auto& [key, value] : cpuinfo) {
    if (key == "processor") ++threads;
    if (key == "model name") cpu["model"] = value;
    if (key == "flags" || key == "Features") cpu["instruction_sets"] = instruction_sets(value);
  }
  if (threads > 0) cpu["threads"] = threads;
  const auto cores = cores_of_cpuinfo(cpuinfo);
  add_cores(cpu, cores.empty() ? cores_of_sysfs(cpus) : cores);

  const auto nodes = entries(root / "sys/devices/system/node");
  const auto node_count = std::ranges::count_if(nodes, [](const Path& path) { return numbered(path, "node"); });
  if (node_count > 0) cpu["numa_nodes"] = node_count;
  if (json sizes = caches(cpus / "cpu0/cache"); !sizes.empty()) cpu["caches"] = std::move(sizes);
  if (const std::string governor = first_line(cpus / "cpu0/cpufreq/scaling_governor"); !governor.empty()) {
    cpu["governor"] = governor;
  }
  if (const auto kilohertz = parse_real(first_line(cpus / "cpu0/cpufreq/cpuinfo_max_freq"))) {
    cpu["max_hertz"] = *kilohertz * 1000;
  }
  for (const auto& [key, value] : fields(root / "proc/meminfo", ':')) {
    const auto kilobytes = parse_integer(value.substr(0, value.find(' ')), 0);  // "131072000 kB"
    if (key == "MemTotal" && kilobytes) cpu["memory_bytes"] = *kilobytes * 1024;
  }
  cpu["usable_cores"] = usable_cores(root);
  utsname system{};
  if (uname(&system) == 0) cpu["architecture"] = system.machine;
  return cpu;
}

json relevant_environment(const char* const* variables) {
  constexpr std::array<std::string_view, 9> kept{"CUDA_", "NCCL_",   "OMP_",      "KMP_",          "GOMP_",
                                                 "DNNL_", "ONEDNN_", "OMPI_MCA_", "GLIBC_TUNABLES"};
  // How the processes of one job find each other: new on every run, with addresses and folders.
  constexpr std::array<std::string_view, 7> plumbing{
      "OMPI_MCA_orte_",        "OMPI_MCA_ess",           "OMPI_MCA_pmix", "OMPI_MCA_prte_",
      "OMPI_MCA_initial_wdir", "OMPI_MCA_shmem_RUNTIME", "NCCL_COMM_ID"};
  // Nothing that changes a result is called so.
  constexpr std::array<std::string_view, 5> secret{"SECRET", "TOKEN", "PASSW", "CREDENTIAL", "_KEY"};
  json found = json::object();
  for (; variables != nullptr && *variables != nullptr; ++variables) {
    const std::string_view variable = *variables;
    const auto begins = [&](std::string_view prefix) { return variable.starts_with(prefix); };
    const std::size_t equals = variable.find('=');
    if (equals == std::string_view::npos) continue;
    if (std::ranges::none_of(kept, begins) || std::ranges::any_of(plumbing, begins)) continue;
    std::string name(variable.substr(0, equals));
    std::string upper = name;
    std::ranges::transform(upper, upper.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    if (std::ranges::any_of(secret, [&](std::string_view word) { return upper.find(word) != std::string::npos; })) {
      continue;
    }
    found[std::move(name)] = variable.substr(equals + 1);
  }
  return found;
}

json describe_machine(bool with_hostname) {
  json machine{{"cpu", describe_cpu()},
               {"devices", json::array()},
               {"links", json::array()},
               {"libraries",
                {{"compiler", RINGMARK_COMPILER},
                 {"libc", libc_version()},
                 {"nlohmann_json", std::to_string(NLOHMANN_JSON_VERSION_MAJOR) + '.' +
                                       std::to_string(NLOHMANN_JSON_VERSION_MINOR) + '.' +
                                       std::to_string(NLOHMANN_JSON_VERSION_PATCH)}}},
               {"environment", relevant_environment(environ)},
               {"load", load_average()},
               {"os", os_name()}};
  utsname system{};
  if (uname(&system) == 0) {
    machine["kernel"] = std::string(system.sysname) + ' ' + system.release;
    if (with_hostname) machine["hostname"] = system.nodename;
  }
  describe_gpus(machine);
  return machine;
}

std::int64_t throttled_periods(const Path& root) {
  return static_cast<std::int64_t>(-smallest_of_groups(root, stops).value_or(0));
}

std::size_t available_memory_bytes(const Path& root) {
  double bytes = std::numeric_limits<double>::infinity();
  for (const auto& [key, value] : fields(root / "proc/meminfo", ':')) {
    const auto kilobytes = parse_real(value.substr(0, value.find(' ')));
    if (key == "MemAvailable" && kilobytes) bytes = *kilobytes * 1024;
  }
  bytes = std::min(bytes, smallest_of_groups(root, room).value_or(bytes));
  constexpr auto most = static_cast<double>(std::numeric_limits<std::int64_t>::max());
  return static_cast<std::size_t>(std::clamp(bytes, 0.0, most));
}

void require_host_memory(std::size_t bytes) {
  const std::size_t available = available_memory_bytes();
  if (bytes <= available) return;
  throw OutOfMemory("the host has " + std::to_string(available) + " bytes of memory free, and " +
                    std::to_string(bytes) + " are needed");
}

int usable_cores(const Path& root) {
  const int allowed = allowed_cores();
  const auto share = smallest_of_groups(root, quota);
  // Rounded down: a thread more than the share is stopped in every period, in the middle of what is measured.
  return share && *share < allowed ? std::max(1, static_cast<int>(*share)) : allowed;
}

}  // namespace harness
