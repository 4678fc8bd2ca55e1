// SPDX-License-Identifier: Apache-2.0
// Programs on the fake machine, and whether they leave what they should.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "allreduce/engine.hpp"
#include "allreduce/values.hpp"

namespace fake_cuda {

// A run over each of `sets` sets of vectors, all in flight at once, then every element of every rank compared. "" when
// all are exact. The problem comes without buffers.
inline std::string run_and_compare(
    const allreduce::Pattern& pattern, allreduce::Problem problem, int sets, allreduce::Placement placement,
    const std::function<std::unique_ptr<allreduce::Program>(const allreduce::Problem&)>& prepare) {
  harness::Devices& devices = *problem.devices;
  const bool in_place = placement == allreduce::Placement::in_place;
  const std::size_t bytes = problem.count * harness::size_of(problem.dtype);
  std::vector<harness::Buffer> memory;
  std::vector<std::unique_ptr<harness::Stream>> users;
  std::vector<std::byte> host(bytes);
  std::vector<harness::Event> ready;
  const auto take = [&](int rank) {
    memory.push_back(devices[rank].allocate(bytes));
    return memory.back().data();
  };
  problem.buffers.resize(static_cast<std::size_t>(sets));
  for (int rank = 0; rank < devices.size(); ++rank) {
    users.push_back(devices[rank].make_stream());
    for (allreduce::Buffers& set : problem.buffers) {
      set.data.push_back(take(rank));
      if (!in_place) set.input.push_back(take(rank));
    }
  }
  const auto program = prepare(problem);
  for (int rank = 0; rank < devices.size(); ++rank) {
    allreduce::fill(pattern, rank, host.data(), problem.count);
    for (const allreduce::Buffers& set : problem.buffers) {
      users[rank]->copy(host.data(), in_place ? set.data[rank] : const_cast<std::byte*>(set.input[rank]), bytes);
    }
    users[rank]->sync();
    ready.push_back(users[rank]->record());
  }
  std::vector<std::vector<harness::Event>> ended;
  for (int set = 0; set < sets; ++set) ended.push_back(program->enqueue(ready));
  std::string wrong;
  for (int rank = 0; rank < devices.size(); ++rank) {
    for (int set = 0; set < sets; ++set) {
      users[rank]->wait(ended[set][rank]);
      users[rank]->copy(problem.buffers[set].data[rank], host.data(), bytes);
      users[rank]->sync();
      if (const auto found = allreduce::compare(pattern, rank, host.data(), problem.count)) {
        wrong = "rank " + std::to_string(rank) + " element " + std::to_string(found->first_index) + ": " +
                std::to_string(found->got) + " instead of " + std::to_string(found->expected);
      }
    }
  }
  program->sync();
  return wrong;
}

}  // namespace fake_cuda
