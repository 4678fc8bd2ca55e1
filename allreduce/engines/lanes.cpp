// SPDX-License-Identifier: Apache-2.0
#include "allreduce/engines/lanes.hpp"

namespace allreduce {

using harness::Event;

LaneProgram::LaneProgram(const Problem& problem) : problem_(problem), lanes_(problem.lanes) {
  for (Rank rank = static_cast<Rank>(lanes_.size()); rank < ranks(); ++rank) {
    own_lanes_.push_back((*problem.devices)[rank].make_stream());
    lanes_.push_back(own_lanes_.back().get());
  }
}

LaneProgram::~LaneProgram() { stop(); }

void LaneProgram::stop() noexcept {
  try {
    LaneProgram::sync();
  } catch (const std::exception&) {  // told by the sync of whoever cared
  }
}

void LaneProgram::record() {
  if (problem_.launch != Launch::graph) return;
  for (const Buffers& set : problem_.buffers) {
    recordings_.push_back(problem_.devices->record(*lanes_[0], [&] {
      const Event fork = lanes_[0]->record();
      for (Rank rank = 1; rank < ranks(); ++rank) lanes_[rank]->wait(fork);
      issue(set);
      for (Rank rank = 1; rank < ranks(); ++rank) lanes_[0]->wait(lanes_[rank]->record());
    }));
  }
}

std::vector<Event> LaneProgram::enqueue(std::span<const Event> ready) {
  const std::size_t set = next_set_++ % problem_.buffers.size();
  if (recordings_.empty()) return run(problem_.buffers[set], ready);
  for (const Event& event : ready) lanes_[0]->wait(event);
  recordings_[set]->launch();
  return std::vector<Event>(lanes_.size(), lanes_[0]->record());
}

std::vector<Event> LaneProgram::run(const Buffers& buffers, std::span<const Event> ready) {
  for (Rank rank = 0; rank < ranks() && !ready.empty(); ++rank) lanes_[rank]->wait(ready[rank]);
  issue(buffers);
  std::vector<Event> ended;
  for (harness::Stream* lane : lanes_) ended.push_back(lane->record());
  return ended;
}

double LaneProgram::time(int runs) {
  next_set_ = 0;
  // All have to come first: what it takes a lane to wake up is no part of a run.
  for (Rank rank = 1; rank < ranks(); ++rank) lanes_[0]->wait(lanes_[rank]->record());
  const Event begin = lanes_[0]->record(harness::Timing::on);
  for (Rank rank = 1; rank < ranks(); ++rank) lanes_[rank]->wait(begin);
  std::vector<Event> ended;
  for (int run = 0; run < runs; ++run) ended = enqueue({});
  for (const Event& event : ended) lanes_[0]->wait(event);
  const Event end = lanes_[0]->record(harness::Timing::on);
  sync();
  return problem_.devices->seconds_between(begin, end) / runs;
}

void LaneProgram::sync() {
  for (harness::Stream* lane : lanes_) lane->sync();
}

}  // namespace allreduce
