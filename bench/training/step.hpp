// SPDX-License-Identifier: Apache-2.0
// One step of training while it is issued: its phases by name, each either computing or communicating, so that a step
// can also be run with the communication left out, or as communication alone. Every phase is marked on every rank's
// stream; no rank waits for another because of that.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/replicas.hpp"

namespace bench {

// What of a step is done.
enum class Work { step, compute, communication };

struct Phase {
  std::string name;
  bool computes = false;
  std::vector<double> seconds = {};  // per rank
};

class Step {
 public:
  Step(const Replicas& replicas, Work work);

  bool computes() const { return work_ != Work::communication; }
  bool communicates() const { return work_ != Work::compute; }

  // Issues the phase, unless this step leaves such work out.
  void compute(const std::string& name, const std::function<void()>& issue);
  void communicate(const std::string& name, const std::function<void()>& issue);

  // In the order of the step. This and the next: call after the replicas were synced.
  std::vector<Phase> phases() const;
  // From the beginning of the step to a mark on this rank's stream.
  double seconds_to(const harness::Event& event, int rank) const;

 private:
  void add(const std::string& name, bool computes, const std::function<void()>& issue);

  const Replicas& replicas_;
  Work work_;
  std::vector<Phase> phases_;
  std::vector<std::vector<harness::Event>> marks_;  // one more than phases, each one a rank
};

// How long each rank has nothing to compute while the busiest one still computes: the straggler's effect on the others.
std::vector<double> waiting_seconds(const std::vector<Phase>& phases);

}  // namespace bench
