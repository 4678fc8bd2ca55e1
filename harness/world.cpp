// SPDX-License-Identifier: Apache-2.0
#include "harness/world.hpp"

#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "harness/error.hpp"
#include "harness/text.hpp"

namespace harness {

namespace {

std::vector<int> cores_of_process() {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof set, &set);
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

std::string host_name() {
  utsname system{};
  return uname(&system) == 0 ? system.nodename : "unknown";
}

bool intersect(const std::vector<int>& a, const std::vector<int>& b) {
  return std::ranges::any_of(a, [&](int core) { return std::ranges::find(b, core) != b.end(); });
}

}  // namespace

std::string missing_mpi() {
  return "this build has no MPI; install openmpi-bin and libopenmpi-dev, or mpich and libmpich-dev, and build again";
}

// FNV-1a (Fowler, Noll, Vo).
std::string fingerprint_of_program() {
  std::ifstream program("/proc/self/exe", std::ios::binary);
  std::uint64_t hash = 0xCBF29CE484222325U;
  for (std::array<char, 65536> bytes; program.read(bytes.data(), bytes.size()), program.gcount() > 0;) {
    for (std::streamsize i = 0; i < program.gcount(); ++i) {
      hash = (hash ^ static_cast<unsigned char>(bytes[i])) * 0x100000001B3U;
    }
  }
  std::array<char, 17> text{};
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(hash));
  return text.data();
}

World::World() : places_{{host_name(), 0, cores_of_process()}} {}

World::World(std::unique_ptr<Processes> processes)
    : processes_(std::move(processes)), rank_(processes_->rank()), size_(processes_->size()) {
  find_places();
  take_own_cores();
  if (size_ == 1) return;
  lifeline_ = std::make_unique<Lifeline>(Lifeline::Job{rank_, size_,
                                                       [this](std::string text) { return broadcast(std::move(text)); },
                                                       [this](int rank) { return name(rank); }});
}

World::~World() {
  if (!lifeline_) return;
  try {
    barrier();
  } catch (const std::exception&) {  // told by whoever is still waited for
  }
  lifeline_.reset();
}

void World::barrier() {
  if (processes_) processes_->barrier();
}
std::vector<double> World::gather(double value) { return processes_ ? processes_->gather(value) : std::vector{value}; }
std::vector<std::string> World::gather(const std::string& text) {
  return processes_ ? processes_->gather(text) : std::vector{text};
}
std::string World::broadcast(std::string text) {
  return processes_ ? processes_->broadcast(std::move(text)) : std::move(text);
}
double World::max(double value) {
  const auto all = gather(value);
  return *std::ranges::max_element(all);
}

void World::agree(const std::string& what, const std::string& text) {
  const auto all = gather(text);
  for (int other = 1; other < size_; ++other) {
    if (all[other] == all[0]) continue;
    throw UsageError(what + " of " + name(other) + " is another than that of " + name(0) + ": " + all[other] +
                     " instead of " + all[0]);
  }
}

void World::set_timeout(double seconds) {
  if (processes_) processes_->set_timeout(seconds);
}

void World::on_end(std::function<void(const JobEnd&)> told) {
  if (lifeline_) lifeline_->on_end(std::move(told));
}
void World::at(const std::string& what) {
  if (lifeline_) lifeline_->at(what);
}
void World::end(const JobEnd& why) {
  if (lifeline_) lifeline_->end(why);
  std::fprintf(stderr, "%s: %s\n", program_invocation_short_name, why.reason.c_str());
  std::_Exit(why.status);
}

std::string World::name(int rank) const {
  return "rank " + std::to_string(rank) + " on host" + std::to_string(places_.at(rank).host_number);
}

std::string World::address() const { return lifeline_ ? lifeline_->address() : "127.0.0.1"; }

void World::find_places() {
  std::string own = host_name();
  for (const int core : cores_of_process()) own += ' ' + std::to_string(core);
  std::vector<std::string> hosts;
  for (const std::string& text : gather(own)) {
    std::vector<std::string> words = split(text, ' ');
    Place place;
    place.host = words[0];
    for (std::size_t i = 1; i < words.size(); ++i) place.cores.push_back(static_cast<int>(*parse_integer(words[i])));
    const auto host = std::ranges::find(hosts, place.host);
    place.host_number = static_cast<int>(host - hosts.begin());
    if (host == hosts.end()) hosts.push_back(place.host);
    places_.push_back(std::move(place));
  }
}

// Where the launcher bound nothing and there are cores enough, each process of a host takes its share of them; else the
// scheduler would move them about, or the first core would serve all of them.
void World::take_own_cores() {
  const Place& own = places_[rank_];
  std::vector<int> sharing;  // ranks
  bool all_alike = true;
  for (int other = 0; other < size_; ++other) {
    if (places_[other].host != own.host || !intersect(places_[other].cores, own.cores)) continue;
    sharing.push_back(other);
    all_alike = all_alike && places_[other].cores == own.cores;
  }
  const auto number = static_cast<int>(sharing.size());
  const int share = static_cast<int>(own.cores.size()) / number;
  sharers_ = all_alike && share > 0 ? 1 : number;
  if (number > 1 && sharers_ == 1) {
    cpu_set_t set;
    CPU_ZERO(&set);
    const auto place = std::ranges::find(sharing, rank_) - sharing.begin();
    for (int i = 0; i < share; ++i) CPU_SET(own.cores[place * share + i], &set);
    sched_setaffinity(0, sizeof set, &set);
  }
  places_.clear();
  find_places();
}

nlohmann::json World::describe(const std::string& device, bool with_hostname) {
  const auto devices = gather(device);
  nlohmann::json hosts = nlohmann::json::array(), ranks = nlohmann::json::array();
  for (int rank = 0; rank < size_; ++rank) {
    const Place& place = places_[rank];
    const std::string host = with_hostname ? place.host : "host" + std::to_string(place.host_number);
    if (place.host_number == static_cast<int>(hosts.size())) hosts.push_back(host);
    ranks.push_back(
        {{"rank", rank}, {"process", rank}, {"host", host}, {"device", devices[rank]}, {"cores", place.cores}});
  }
  const auto launcher = find_launcher(environ);
  return {{"size", size_},
          {"hosts", hosts},
          {"rank_map", ranks},
          {"launcher", launcher ? nlohmann::json(launcher->name) : nlohmann::json(nullptr)},
          {"mpi", processes_ ? nlohmann::json(processes_->library()) : nlohmann::json(nullptr)}};
}

}  // namespace harness
