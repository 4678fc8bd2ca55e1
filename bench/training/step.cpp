// SPDX-License-Identifier: Apache-2.0
#include "bench/training/step.hpp"

#include <algorithm>

namespace bench {

Step::Step(const Replicas& replicas, Work work) : replicas_(replicas), work_(work), marks_{replicas.mark()} {}

void Step::add(const std::string& name, bool computes, const std::function<void()>& issue) {
  issue();
  phases_.push_back({name, computes});
  marks_.push_back(replicas_.mark());
}

void Step::compute(const std::string& name, const std::function<void()>& issue) {
  if (computes()) add(name, true, issue);
}

void Step::communicate(const std::string& name, const std::function<void()>& issue) {
  if (communicates()) add(name, false, issue);
}

double Step::seconds_to(const harness::Event& event, int rank) const {
  return replicas_.devices().seconds_between(marks_.front()[rank], event);
}

std::vector<Phase> Step::phases() const {
  std::vector<Phase> phases = phases_;
  for (std::size_t i = 0; i < phases.size(); ++i) {
    for (int rank = 0; rank < replicas_.ranks(); ++rank) {
      phases[i].seconds.push_back(replicas_.devices().seconds_between(marks_[i][rank], marks_[i + 1][rank]));
    }
  }
  return phases;
}

std::vector<double> waiting_seconds(const std::vector<Phase>& phases) {
  std::vector<double> busy;
  for (const Phase& phase : phases) {
    busy.resize(phase.seconds.size());
    for (std::size_t rank = 0; rank < busy.size(); ++rank) busy[rank] += phase.computes ? phase.seconds[rank] : 0;
  }
  std::vector<double> waiting;
  for (const double own : busy) waiting.push_back(*std::max_element(busy.begin(), busy.end()) - own);
  return waiting;
}

}  // namespace bench
