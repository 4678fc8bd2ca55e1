// SPDX-License-Identifier: Apache-2.0
#include "allreduce/engine.hpp"

#include <algorithm>

#include "harness/device/cpu.hpp"

namespace allreduce {

std::unique_ptr<Program> prepare(const Schedule& schedule, const Problem& problem) {
  const bool compiles =
      problem.launch == Launch::graph && problem.devices && harness::are_cpu_devices(*problem.devices);
  return compiles ? prepare_compiled(schedule, problem) : prepare_streams(schedule, problem);
}

Verdict require_fitting(const Schedule& schedule, const Problem& problem) {
  Verdict verdict = verify(schedule);
  if (!verdict.proved) throw harness::Error(verdict.reason);
  const auto ranks = static_cast<std::size_t>(schedule.shape.ranks);
  if (!problem.devices || problem.devices->size() != schedule.shape.ranks || problem.buffers.empty()) {
    throw harness::Error(schedule.name + " is for " + std::to_string(ranks) + " devices and at least one buffer set");
  }
  const bool in_place = schedule.shape.placement == Placement::in_place;
  for (const Buffers& set : problem.buffers) {
    if (set.data.size() != ranks || set.input.size() != (in_place ? 0 : ranks)) {
      throw harness::Error(schedule.name + " needs one vector a rank, and an input a rank only out of place");
    }
  }
  return verdict;
}

std::size_t boundary(std::size_t count, int chunks, int chunk, std::size_t element_bytes) {
  const std::size_t even = slice_begin(count, chunks, chunk);
  const std::size_t line = 64 / element_bytes;
  return chunk == chunks || count / chunks < 16 * line ? even : even / line * line;
}

std::size_t boundary(const Schedule& schedule, std::size_t count, int chunk, std::size_t element_bytes) {
  if (!has_slices(schedule.collective)) return boundary(count, schedule.chunks, chunk, element_bytes);
  const int chunks = schedule.chunks / schedule.shape.ranks;  // of a slice
  const int slice = std::min(chunk / chunks, schedule.shape.ranks - 1);
  const std::size_t begin = slice_begin(count, schedule.shape.ranks, slice);
  const std::size_t end = slice_begin(count, schedule.shape.ranks, slice + 1);
  return begin + boundary(end - begin, chunks, chunk - slice * chunks, element_bytes);
}

}  // namespace allreduce
