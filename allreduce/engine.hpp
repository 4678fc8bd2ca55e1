// SPDX-License-Identifier: Apache-2.0
// What runs an all-reduce. An Engine prepares a problem (buffers, devices, element type) once, outside of any clock,
// and the Program that it gives runs it as often as wanted.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "allreduce/schedule.hpp"
#include "allreduce/verify.hpp"
#include "harness/device/device.hpp"

namespace allreduce {

enum class Launch { eager, graph };
// Who carries a copy between ranks: the one that receives it, or the one that sends it.
enum class Direction { pull, push };

// Where one all-reduce finds and leaves its vectors, one pointer a rank. In place `input` is empty.
struct Buffers {
  std::vector<std::byte*> data;
  std::vector<const std::byte*> input = {};
};

struct Problem {
  harness::Devices* devices = nullptr;
  std::size_t count = 0;  // elements of each rank's vector
  harness::Dtype dtype = harness::Dtype::f32;
  harness::Op op = harness::Op::sum;
  Launch launch = Launch::eager;
  // One or more sets of vectors; run k uses set k modulo their number, so that a batch of runs walks over fresh data.
  std::vector<Buffers> buffers;
  Direction direction = Direction::pull;
  // A chunk that is copied to scratch only to be reduced there is reduced straight from the peer's memory instead.
  // Every rank must reach its peers' memory (Devices::route).
  bool fused = false;
  // A stream a rank, of that rank's device, that programs share so that their runs go one after the other, in the order
  // in which they were issued. Empty: the program has its own.
  std::vector<harness::Stream*> lanes = {};
};

class Program {
 public:
  virtual ~Program() = default;
  // Issues the next run: on rank r it starts after ready[r] (where given). Gives an event a rank, after which that
  // rank's result stands and its buffers may be written.
  virtual std::vector<harness::Event> enqueue(std::span<const harness::Event> ready = {}) = 0;
  // Seconds of one run, as the mean of `runs` runs back to back; begins and ends on rank 0's stream, which waits for
  // all. Starts at buffer set 0.
  virtual double time(int runs) = 0;
  // Waits for all work; throws what went wrong.
  virtual void sync() = 0;
};

// Runs a schedule as the problem asks: by streams, or compiled where it is recorded on CPU devices. Throws Error for a
// schedule that `verify` does not prove, or that does not fit the problem.
std::unique_ptr<Program> prepare(const Schedule& schedule, const Problem& problem);

// A stream for each rank does that rank's reduces and fetches what it needs from its peers (pull), ordered across
// streams by events; eager, or recorded once and replayed. Throws as `prepare` does.
std::unique_ptr<Program> prepare_streams(const Schedule& schedule, const Problem& problem);

// A list for each rank, which that CPU device's worker runs through: see engines/compiled.cpp. Throws as `prepare`
// does, and where a device is not a CPU's.
std::unique_ptr<Program> prepare_compiled(const Schedule& schedule, const Problem& problem);

// For engines: the proof of a schedule that fits the problem; else throws Error.
Verdict require_fitting(const Schedule& schedule, const Problem& problem);

// First element of piece `chunk` when `count` elements are cut into `chunks` pieces: even to one element, and on
// 64-byte borders where the pieces are large enough not to notice.
std::size_t boundary(std::size_t count, int chunks, int chunk, std::size_t element_bytes);
// The same for a schedule, each of whose slices, where it has some, begins at its even share exactly.
std::size_t boundary(const Schedule& schedule, std::size_t count, int chunk, std::size_t element_bytes);

}  // namespace allreduce
