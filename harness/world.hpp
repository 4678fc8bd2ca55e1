// SPDX-License-Identifier: Apache-2.0
// The processes of this job. Alone, a process is rank 0 of 1 and every call below is as good as none. In a job every
// process runs the same program on the same options, each with one device; what they decide, they decide from numbers
// that all of them know. When one is lost, hangs or fails by itself, all end, in bounded time, and rank 0 says why.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/lifeline.hpp"
#include "harness/processes.hpp"

namespace harness {

// A number of the bytes of this program: two builds have two.
std::string fingerprint_of_program();

class World {
 public:
  World();                                               // this process alone
  explicit World(std::unique_ptr<Processes> processes);  // collective, as all that says so below
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  ~World();  // collective

  int rank() const { return rank_; }
  int size() const { return size_; }
  // Whether a message-passing library is there, also for one process.
  bool joined() const { return processes_ != nullptr; }

  // Collective. They throw TimedOut past the deadline.
  void barrier();
  std::vector<double> gather(double value);  // every process's, by rank
  std::vector<std::string> gather(const std::string& text);
  std::string broadcast(std::string text);  // rank 0's
  double max(double value);
  // Throws UsageError, naming the first rank whose text is another than rank 0's: "what" is "the command line".
  void agree(const std::string& what, const std::string& text);
  // The deadline of each of these calls.
  void set_timeout(double seconds);

  // See Lifeline. A process alone that ends so prints the reason.
  void on_end(std::function<void(const JobEnd&)> told);
  void at(const std::string& what);
  [[noreturn]] void end(const JobEnd& why);

  // "rank 1 on host1". Hosts are numbered in the order of their first rank, and named where that was asked for.
  std::string name(int rank) const;
  // Processes of this host that share this one's cores, this one counted: 1 where each has cores of its own.
  int sharers() const { return sharers_; }
  // An address of this host at which the other processes reach it.
  std::string address() const;

  // Collective. The `world` of a run in results/schema.json: hosts, and for each rank its host, device and cores.
  nlohmann::json describe(const std::string& device, bool with_hostname);

 private:
  struct Place {
    std::string host;        // its name
    int host_number = 0;     // in the order of first ranks
    std::vector<int> cores;  // that the process may run on
  };
  void find_places();
  void take_own_cores();

  std::unique_ptr<Processes> processes_;
  int rank_ = 0, size_ = 1, sharers_ = 1;
  std::vector<Place> places_;
  std::unique_ptr<Lifeline> lifeline_;  // nothing for one process
};

}  // namespace harness
