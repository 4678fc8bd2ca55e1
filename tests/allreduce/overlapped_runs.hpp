// SPDX-License-Identifier: Apache-2.0
// A schedule, run as a training step runs it: three collectives in flight at once over two sets of vectors, each fed
// and read by streams of its own that know of it only what `enqueue` says: it may begin on a rank when that rank's
// vector is ready, and has ended there when that rank's event passes. The reader then destroys the vectors at once, so
// that an event which passes too early shows, as does, on RandomDevices, every other order that is missing.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "allreduce/engine.hpp"
#include "allreduce/schedule.hpp"
#include "allreduce/values.hpp"
#include "tests/allreduce/random_devices.hpp"

namespace allreduce {

class OverlappedRuns {
 public:
  OverlappedRuns(RandomDevices& devices, const Schedule& schedule, Launch launch);

  // In the order that `seed` draws, leaving out one of the engine's waits on request. What is wrong; "" when every
  // element of every result is exact.
  std::string operator()(std::uint64_t seed, std::optional<std::size_t> left_out = std::nullopt);

 private:
  static constexpr int runs = 3;
  static constexpr int sets = 2;
  using Bytes = std::vector<std::byte>;

  // Each run has values of its own, so that what an earlier one left behind is wrong.
  Pattern pattern_of(int run) const;
  void feed(int run);
  void read(int run, const std::vector<harness::Event>& ended);

  RandomDevices& devices_;
  const std::size_t count_;  // elements of a vector: enough for every chunk to have some
  const Placement placement_;
  const Pattern pattern_;  // of the first run
  std::vector<harness::Buffer> memory_;
  std::vector<Buffers> sets_;
  std::vector<std::unique_ptr<harness::Stream>> users_;  // one a rank
  std::array<std::vector<Bytes>, runs> contributions_, results_;
  std::vector<harness::Event> ready_;
  const Bytes destroyed_;
  std::size_t first_set_ = 0;  // which set the program takes next
  std::unique_ptr<Program> program_;
};

}  // namespace allreduce
