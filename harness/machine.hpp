// SPDX-License-Identifier: Apache-2.0
// What a result was measured on, so that a number can be believed, repeated or explained a year later. Read from /proc
// and /sys; what a container or an old kernel does not show is left out, never guessed, never an error. Only variables
// that change results are kept, by name; the host's name only where the user asks for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

namespace harness {

// {"model", "architecture", "sockets", "cores", "threads", "usable_cores", "numa_nodes", "caches": {"L1d": bytes, ...},
// "governor", "max_hertz", "instruction_sets": [...], "memory_bytes"}: what is unknown is absent. `root` is where proc/
// and sys/ are.
nlohmann::json describe_cpu(const std::filesystem::path& root = "/");

// The variables of `variables` (as `environ`, ended by a null) that change results, without those that only tell one
// process of a job where the others are, and without any that is called a secret, token, password, credential or key.
nlohmann::json relevant_environment(const char* const* variables);

// {"cpu", "devices": [], "links": [], "libraries": {"compiler", "libc", "nlohmann_json"}, "environment", "load", "os",
// "kernel"} and "hostname" where asked for. The caller fills in devices, links and the libraries that it uses. `load`
// is the mean number of runnable tasks over the last minute, null where unknown.
nlohmann::json describe_machine(bool with_hostname);

// How many cores this process may keep busy: those it may run on, or fewer where its control group has a smaller share
// of time. At least 1.
int usable_cores(const std::filesystem::path& root = "/");

// How often this process's control group, or one above it, was stopped for having used up its share of time.
std::int64_t throttled_periods(const std::filesystem::path& root = "/");

// Bytes that can be allocated and written before the system or a control group kills the process; as good as unlimited
// where neither says. A kernel that overcommits gives out more than that.
std::size_t available_memory_bytes(const std::filesystem::path& root = "/");

// Throws OutOfMemory, with both numbers, when there is less.
void require_host_memory(std::size_t bytes);

}  // namespace harness
