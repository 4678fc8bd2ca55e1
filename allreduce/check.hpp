// SPDX-License-Identifier: Apache-2.0
// The check of an all-reduce, or another collective: vectors on every device, filled with contributions whose answer is
// known, and what a run must leave there. Twice: with whole numbers, where every rank must hold the exact answer at
// every element that it is owed; and, for sums and averages of floating-point numbers, with random reals, which must be
// within the error that any order of additions stays below, and after an all-reduce the same bits on all ranks. Where
// each rank is a process of its own, all of them check theirs, and each knows of every fault.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "allreduce/engine.hpp"
#include "allreduce/values.hpp"
#include "harness/device/device.hpp"
#include "harness/report.hpp"
#include "harness/world.hpp"

namespace allreduce {

// One vector a rank (out of place two), filled and compared through the devices' own streams. GPUs fill theirs, and
// compare the whole numbers, by kernels; a vector comes to the host where one of those is wrong, and of random reals.
class Vectors {
 public:
  // Of a world's process: the device is that of its rank. The vectors' memory is the device's own unless `allocate`
  // brings other. Throws harness::OutOfMemory.
  using Allocate = std::function<harness::Buffer(harness::Device& device, std::size_t bytes)>;
  Vectors(harness::Devices& devices, const Pattern& pattern, std::size_t count, Placement placement,
          harness::World* world = nullptr, const Allocate& allocate = &harness::Device::allocate);

  const Buffers& buffers() const { return buffers_; }
  std::vector<const std::byte*> inputs() const;        // of each rank: where its contribution stands
  std::size_t bytes() const { return found_.size(); }  // of each rank
  const Pattern& pattern() const { return pattern_; }

  // Every rank's contribution, of whole numbers or of reals.
  void refill(Numbers numbers = Numbers::whole);
  // What a run after that refill left, against what it should have left: how many elements of all ranks are wrong, and
  // the first; nothing when none is. Collective over a world.
  std::optional<harness::Wrong> compare(Numbers numbers = Numbers::whole);

 private:
  void fetch(int device);  // its result into found_
  const std::vector<std::byte>& answer(int rank);

  harness::Devices& devices_;
  harness::World* const world_;  // nothing: all ranks are here
  const int first_rank_;         // of the devices here
  const Pattern pattern_;
  const std::size_t count_;
  std::vector<std::vector<std::byte>> contributions_;  // of CPU devices: timed visits start from them
  std::vector<std::byte> answer_, found_;              // the first once it is asked for, as of that rank
  int answer_rank_ = 0;
  std::vector<harness::Buffer> data_, input_;
  std::vector<std::unique_ptr<harness::Stream>> streams_;
  Buffers buffers_;
};

struct Fault {
  harness::Wrong wrong;
  std::string reason;  // one sentence, with the numbers
};

// Runs the program, which must be prepared on these vectors, once with each kind of numbers. Nothing when all is right.
std::optional<Fault> check(Program& program, Vectors& vectors);

}  // namespace allreduce
