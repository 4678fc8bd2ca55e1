// SPDX-License-Identifier: Apache-2.0
#include "bench/yardstick.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "harness/device/cpu.hpp"

namespace bench {

namespace {

constexpr std::size_t block = 2048;  // words summed in the nearest cache before they are handed out

// Adds the words [first, last) of all inputs, and writes the sums to all outputs. Unsigned words: the cheapest sum, so
// that memory and nothing else sets the time. An output may be an input.
void add_all(const std::vector<const std::byte*>& inputs, const std::vector<std::byte*>& outputs, std::size_t first,
             std::size_t last) {
  const auto words = [&](const std::byte* vector, std::size_t at) {
    return reinterpret_cast<const std::uint32_t*>(vector) + at;
  };
  for (std::size_t at = first; at < last; at += block) {
    const std::size_t count = std::min(block, last - at);
    auto* sums = const_cast<std::uint32_t*>(words(outputs[0], at));
    if (inputs.size() == 1) std::memmove(sums, words(inputs[0], at), count * sizeof *sums);
    for (std::size_t rank = 1; rank < inputs.size(); ++rank) {
      const std::uint32_t* so_far = rank == 1 ? words(inputs[0], at) : sums;
      const std::uint32_t* from = words(inputs[rank], at);
#pragma omp simd  // where they are the same words, they are so at the same index
      for (std::size_t i = 0; i < count; ++i) sums[i] = so_far[i] + from[i];
    }
    for (std::size_t rank = 1; rank < outputs.size(); ++rank) {
      std::memcpy(outputs[rank] + at * sizeof *sums, sums, count * sizeof *sums);
    }
  }
}

}  // namespace

bool Yardstick::fits(const harness::Devices& devices) { return harness::are_cpu_devices(devices); }

Yardstick::Yardstick(harness::Devices& devices, std::vector<const std::byte*> inputs, std::vector<std::byte*> outputs,
                     std::size_t bytes)
    : devices_(devices), inputs_(std::move(inputs)), outputs_(std::move(outputs)), bytes_(bytes) {
  for (int rank = 0; rank < devices.size(); ++rank) streams_.push_back(devices[rank].make_stream());
}

double Yardstick::time(int runs) {
  const std::size_t words = bytes_ / sizeof(std::uint32_t);
  const std::size_t ranks = streams_.size();
  std::vector<harness::Event> begins, ends;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    harness::Stream& stream = *streams_[rank];
    if (rank > 0) stream.wait(begins[0]);
    begins.push_back(stream.record(harness::Timing::on));
    harness::run(stream, [this, runs, first = words * rank / ranks, last = words * (rank + 1) / ranks] {
      for (int run = 0; run < runs; ++run) add_all(inputs_, outputs_, first, last);
    });
    ends.push_back(stream.record(harness::Timing::on));
  }
  double slowest = 0;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    streams_[rank]->sync();
    slowest = std::max(slowest, devices_.seconds_between(begins[rank], ends[rank]));
  }
  return slowest / runs;
}

}  // namespace bench
