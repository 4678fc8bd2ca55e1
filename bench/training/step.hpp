// SPDX-License-Identifier: Apache-2.0
// One step of training while it is issued: its phases by name, each either computing or communicating, so that a step
// can also be run with the communication left out, or as communication alone. Every phase is marked on every rank's
// stream, or on the stream of the one rank that has it; no rank waits for another because of that. Where ranks are
// processes, it is this process's part of the step, and its one rank is number 0 here.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/replicas.hpp"

namespace bench {

// What of a step is done.
enum class Work { step, compute, communication };

// Whether the phases are marked, so that they have times.
enum class Marks { on, off };

struct Phase {
  std::string name;
  bool computes = false;
  std::vector<double> seconds = {};  // per rank, of all times that the phase came
};

// A phase on one rank, each time that it came.
struct Stretch {
  std::string phase;
  bool computes = false;
  int rank = 0;
  std::string name;           // what was at work, where one rank had it for itself; else the phase
  double begin = 0, end = 0;  // seconds since the step began on this rank
};

class Step {
 public:
  Step(const Replicas& replicas, Work work, Marks marks = Marks::on);

  bool computes() const { return work_ != Work::communication; }
  bool communicates() const { return work_ != Work::compute; }

  // Issues the phase, unless this step leaves such work out. A phase can come several times.
  void compute(const std::string& phase, const std::function<void()>& issue);
  void communicate(const std::string& phase, const std::function<void()>& issue);
  // What issues work to one rank alone. What this one waits for between two such stretches belongs to neither.
  void compute(const std::string& phase, int rank, const std::string& name, const std::function<void()>& issue);
  void communicate(const std::string& phase, int rank, const std::string& name, const std::function<void()>& issue);

  // In the order of the step; none without marks. These and the next: call after the replicas were synced.
  std::vector<Phase> phases() const;
  std::vector<Stretch> stretches() const;
  // From the beginning of the step to a mark on this rank's stream.
  double seconds_to(const harness::Event& event, int rank) const;

 private:
  struct Marked {
    Stretch what;
    harness::Event begin, end;
  };
  void add_to_all(const std::string& phase, bool computes, const std::function<void()>& issue);
  void add_to_one(Stretch what, const std::function<void()>& issue);

  const Replicas& replicas_;
  Work work_;
  Marks marks_;
  std::vector<harness::Event> begin_, last_;  // the first and the last mark of each rank
  std::vector<Marked> marked_;
};

// How long each rank has nothing to compute while the busiest one still computes: the straggler's effect on the others.
std::vector<double> waiting_seconds(const std::vector<Phase>& phases);

// The part of a step of so many seconds in which each rank computes nothing, because it waits or communicates.
std::vector<double> idle_shares(const std::vector<Phase>& phases, double step);

}  // namespace bench
