// SPDX-License-Identifier: Apache-2.0
// A program of which this process runs one rank, and the other processes of the world the others: what the engines over
// MPI and Gloo have in common. Everything happens on a stream of the process's one CPU device, in order, so that it
// can be ordered with other work there, and a library that never returns is noticed by who waits for the stream.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "allreduce/engine.hpp"
#include "harness/world.hpp"

namespace allreduce {

// Why this process cannot be a rank with these devices.
std::optional<std::string> rank_refuses(const harness::Devices& devices);

class RankProgram : public Program {
 public:
  RankProgram(const Problem& problem, harness::World& world);
  ~RankProgram() override;

  std::vector<harness::Event> enqueue(std::span<const harness::Event> ready) override;
  // Of this rank, from when all have come; the slowest rank's is the time of the run.
  double time(int runs) override;
  void sync() override;

 protected:
  // One run on the given vectors of this rank, in the stream's own thread; it has ended when this returns.
  virtual void run(std::byte* data, const std::byte* input) = 0;

  const Problem& problem() const { return problem_; }
  harness::World& world() const { return world_; }
  // For who derives: ends all work, before what it uses goes away.
  void stop() noexcept;

 private:
  void run_next();

  const Problem problem_;
  harness::World& world_;
  std::unique_ptr<harness::Stream> own_lane_;
  harness::Stream* lane_ = nullptr;
  std::size_t next_set_ = 0;
};

}  // namespace allreduce
