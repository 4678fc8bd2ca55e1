// SPDX-License-Identifier: Apache-2.0
// A program on a stream a rank, eager or recorded once.
#pragma once

#include <memory>
#include <vector>

#include "allreduce/engine.hpp"

namespace allreduce {

class LaneProgram : public Program {
 public:
  explicit LaneProgram(const Problem& problem);
  ~LaneProgram() override;

  std::vector<harness::Event> enqueue(std::span<const harness::Event> ready) override;
  double time(int runs) override;
  void sync() override;

 protected:
  // One run's calls, on the streams of all ranks.
  virtual void issue(const Buffers& buffers) = 0;
  // An eager run: begins on each rank when that is ready, and gives when each has ended.
  virtual std::vector<harness::Event> run(const Buffers& buffers, std::span<const harness::Event> ready);

  // For who derives, at the end of its constructor: where the problem wants it, `issue` is recorded for each set.
  void record();
  // For who derives: ends all work, before what it uses goes away.
  void stop() noexcept;

  const Problem& problem() const { return problem_; }
  int ranks() const { return problem_.devices->size(); }
  harness::Stream& lane(Rank rank) { return *lanes_[rank]; }

 private:
  const Problem problem_;
  std::vector<std::unique_ptr<harness::Stream>> own_lanes_;
  std::vector<harness::Stream*> lanes_;
  std::vector<std::unique_ptr<harness::Recording>> recordings_;
  std::size_t next_set_ = 0;
};

}  // namespace allreduce
