// SPDX-License-Identifier: Apache-2.0
#include "allreduce/engines/rank_program.hpp"

#include "harness/clock.hpp"
#include "harness/device/cpu.hpp"

namespace allreduce {

std::optional<std::string> rank_refuses(const harness::Devices& devices) {
  if (devices.size() != 1) return "each process is one rank with one device, and " + devices.text() + " has several";
  if (!harness::are_cpu_devices(devices)) return "processes take CPU devices, and " + devices.text() + " is none";
  return std::nullopt;
}

RankProgram::RankProgram(const Problem& problem, harness::World& world) : problem_(problem), world_(world) {
  if (!problem.devices || problem.buffers.empty()) throw harness::Error("a rank needs a device and vectors");
  if (const auto why = rank_refuses(*problem.devices)) throw harness::Error(*why);
  if (problem.lanes.empty()) own_lane_ = (*problem.devices)[0].make_stream();
  lane_ = own_lane_ ? own_lane_.get() : problem.lanes[0];
}

RankProgram::~RankProgram() { stop(); }

void RankProgram::stop() noexcept {
  try {
    if (lane_) lane_->sync();
  } catch (const std::exception&) {  // told by the sync of whoever cared
  }
}

void RankProgram::run_next() {
  const Buffers& set = problem_.buffers[next_set_++ % problem_.buffers.size()];
  run(set.data[0], set.input.empty() ? nullptr : set.input[0]);
}

std::vector<harness::Event> RankProgram::enqueue(std::span<const harness::Event> ready) {
  for (const harness::Event& event : ready) lane_->wait(event);
  harness::run(*lane_, [this] { run_next(); });
  return {lane_->record()};
}

double RankProgram::time(int runs) {
  double seconds = 0;
  harness::run(*lane_, [&] {
    next_set_ = 0;
    world_.barrier();
    const double begin = harness::steady_seconds();
    for (int i = 0; i < runs; ++i) run_next();
    seconds = (harness::steady_seconds() - begin) / runs;
  });
  lane_->sync();
  return seconds;
}

void RankProgram::sync() { lane_->sync(); }

}  // namespace allreduce
