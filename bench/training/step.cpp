// SPDX-License-Identifier: Apache-2.0
#include "bench/training/step.hpp"

#include <algorithm>

namespace bench {

namespace {

std::vector<double> busy_seconds(const std::vector<Phase>& phases) {
  std::vector<double> busy;
  for (const Phase& phase : phases) {
    busy.resize(phase.seconds.size());
    for (std::size_t rank = 0; rank < busy.size(); ++rank) busy[rank] += phase.computes ? phase.seconds[rank] : 0;
  }
  return busy;
}

}  // namespace

Step::Step(const Replicas& replicas, Work work, Marks marks) : replicas_(replicas), work_(work), marks_(marks) {
  if (marks == Marks::on) last_ = begin_ = replicas.mark();
}

void Step::add_to_all(const std::string& phase, bool computes, const std::function<void()>& issue) {
  issue();
  if (marks_ == Marks::off) return;
  auto end = replicas_.mark();
  for (int rank = 0; rank < replicas_.here(); ++rank) {
    marked_.push_back({{phase, computes, rank, phase}, last_[rank], end[rank]});
  }
  last_ = std::move(end);
}

void Step::add_to_one(Stretch what, const std::function<void()>& issue) {
  if (marks_ == Marks::off) return issue();
  harness::Stream& stream = replicas_.stream(what.rank);
  auto begin = stream.record(harness::Timing::on);
  issue();
  last_[what.rank] = stream.record(harness::Timing::on);
  marked_.push_back({std::move(what), std::move(begin), last_[what.rank]});
}

void Step::compute(const std::string& phase, const std::function<void()>& issue) {
  if (computes()) add_to_all(phase, true, issue);
}

void Step::communicate(const std::string& phase, const std::function<void()>& issue) {
  if (communicates()) add_to_all(phase, false, issue);
}

void Step::compute(const std::string& phase, int rank, const std::string& name, const std::function<void()>& issue) {
  if (computes()) add_to_one({phase, true, rank, name}, issue);
}

void Step::communicate(const std::string& phase, int rank, const std::string& name,
                       const std::function<void()>& issue) {
  if (communicates()) add_to_one({phase, false, rank, name}, issue);
}

double Step::seconds_to(const harness::Event& event, int rank) const {
  return replicas_.devices().seconds_between(begin_[rank], event);
}

std::vector<Stretch> Step::stretches() const {
  std::vector<Stretch> stretches;
  for (const Marked& marked : marked_) {
    stretches.push_back(marked.what);
    stretches.back().begin = seconds_to(marked.begin, marked.what.rank);
    stretches.back().end = seconds_to(marked.end, marked.what.rank);
  }
  return stretches;
}

std::vector<Phase> Step::phases() const {
  std::vector<Phase> phases;
  for (const Stretch& stretch : stretches()) {
    auto phase = std::find_if(phases.begin(), phases.end(), [&](auto& one) { return one.name == stretch.phase; });
    if (phase == phases.end()) {
      phases.push_back({stretch.phase, stretch.computes, std::vector<double>(replicas_.here())});
      phase = phases.end() - 1;
    }
    phase->seconds[stretch.rank] += stretch.end - stretch.begin;
  }
  return phases;
}

std::vector<double> waiting_seconds(const std::vector<Phase>& phases) {
  const std::vector<double> busy = busy_seconds(phases);
  std::vector<double> waiting;
  for (const double own : busy) waiting.push_back(*std::max_element(busy.begin(), busy.end()) - own);
  return waiting;
}

std::vector<double> idle_shares(const std::vector<Phase>& phases, double step) {
  std::vector<double> idle;
  for (const double own : busy_seconds(phases)) idle.push_back(1 - own / step);
  return idle;
}

}  // namespace bench
