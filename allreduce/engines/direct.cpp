// SPDX-License-Identifier: Apache-2.0
#include "allreduce/engines/direct.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <map>
#include <vector>

#include "allreduce/engines/direct_kernels.hpp"
#include "allreduce/engines/lanes.hpp"
#include "harness/device/cuda_native.hpp"
#include "harness/device/dtype.hpp"

namespace allreduce {

namespace {

constexpr std::size_t pack_bytes = 16;  // that a thread moves at once
constexpr std::size_t warp = 32, most_threads = 512, most_blocks = 32;
constexpr int most_seconds = 10;  // of a wait for a peer

constexpr std::string_view one_shot = "one_shot", two_shot = "two_shot";

DirectShot shot_of(std::string_view name) { return name == one_shot ? DirectShot::one : DirectShot::two; }

int ask(cudaDeviceAttr attribute, int gpu) {
  int value = 0;
  harness::check_cuda(cudaDeviceGetAttribute(&value, attribute, gpu),
                      "asking what GPU " + std::to_string(gpu) + " can do");
  return value;
}

// What every rank launches. Ranks of one GPU must all be there at once, or they would wait for what cannot begin.
struct Grid {
  const void* kernel;
  unsigned threads, blocks;
};

// With blocks = 0 where not even one for each rank fits on `full`.
Grid grid_of(const Problem& problem, DirectShot shot, int& full) {
  const auto ranks = static_cast<std::size_t>(problem.devices->size());
  const std::size_t packs = (problem.count * harness::size_of(problem.dtype) + pack_bytes - 1) / pack_bytes;
  const std::size_t work =
      shot == DirectShot::one ? packs : (packs + ranks - 1) / ranks;  // of a rank, between meetings
  const std::size_t threads = std::clamp((work + warp - 1) / warp * warp, warp, most_threads);
  std::size_t blocks = std::clamp<std::size_t>((work + threads - 1) / threads, 1, most_blocks);
  const void* kernel = kernels::direct_kernel(shot, {problem.dtype, problem.op, 1});
  std::map<int, std::size_t> ranks_on;
  for (Rank rank = 0; rank < problem.devices->size(); ++rank) ++ranks_on[harness::gpu_of((*problem.devices)[rank])];
  for (const auto& [gpu, sharers] : ranks_on) {
    harness::use_gpu(gpu);
    int at_once = 0;
    harness::check_cuda(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&at_once, kernel, static_cast<int>(threads), 0),
                        "asking how much fits on GPU " + std::to_string(gpu));
    const std::size_t room = static_cast<std::size_t>(at_once) * ask(cudaDevAttrMultiProcessorCount, gpu);
    if (room / sharers >= blocks) continue;
    blocks = room / sharers;
    full = gpu;
  }
  return {kernel, static_cast<unsigned>(threads), static_cast<unsigned>(blocks)};
}

class DirectProgram : public LaneProgram {
 public:
  DirectProgram(const Problem& problem, DirectShot shot) : LaneProgram(problem) {
    int full = 0;
    grid_ = grid_of(problem, shot, full);
    const std::size_t vector =
        (problem.count * harness::size_of(problem.dtype) + pack_bytes - 1) / pack_bytes * pack_bytes;
    const std::size_t flags = std::size_t{grid_.blocks} * most_direct_ranks;
    const std::vector<std::uint32_t> zeros(flags + grid_.blocks + 1, 0);
    calls_.resize(static_cast<std::size_t>(ranks()));
    for (Rank rank = 0; rank < ranks(); ++rank) {
      harness::Device& device = (*problem.devices)[rank];
      scratch_.push_back(device.allocate(2 * vector));
      words_.push_back(device.allocate(zeros.size() * sizeof(std::uint32_t)));
      lane(rank).copy(zeros.data(), words_.back().data(), words_.back().bytes());
      lane(rank).sync();
      auto* words = reinterpret_cast<std::uint32_t*>(words_.back().data());
      DirectCall& own = calls_[rank];
      own.count = problem.count;
      own.rank = rank;
      own.ranks = ranks();
      own.divisor = problem.op == harness::Op::avg ? ranks() : 1;
      own.launches = words + flags;
      own.missed = words + flags + grid_.blocks;
      const int gpu = harness::gpu_of(device);
      own.limit = 1000LL * ask(cudaDevAttrClockRate, gpu) * most_seconds;
      for (DirectCall& call : calls_) {
        call.scratch[rank] = scratch_.back().data();
        call.arrived[rank] = words;
      }
    }
    record();
  }
  ~DirectProgram() override { stop(); }

  void sync() override {
    LaneProgram::sync();
    for (Rank rank = 0; rank < ranks(); ++rank) {
      std::uint32_t missed = 0;
      lane(rank).copy(calls_[rank].missed, &missed, sizeof missed);
      lane(rank).sync();
      if (missed == 0) continue;
      throw harness::Error("rank " + std::to_string(rank) + " (" + lane(rank).device().name() + ") waited " +
                           std::to_string(most_seconds) + " s for rank " + std::to_string(missed - 1) +
                           ", whose kernel did not come");
    }
  }

 private:
  void issue(const Buffers& buffers) override {
    if (problem().count == 0) return;
    for (Rank rank = 0; rank < ranks(); ++rank) {
      DirectCall call = calls_[rank];
      call.output = buffers.data[rank];
      call.input = buffers.input.empty() ? call.output : buffers.input[rank];
      const auto aligned = [](const void* data) { return reinterpret_cast<std::uintptr_t>(data) % pack_bytes == 0; };
      call.aligned = aligned(call.input) && aligned(call.output);
      void* arguments[] = {&call};
      harness::use_gpu(harness::gpu_of(lane(rank).device()));
      harness::check_cuda(cudaLaunchKernel(grid_.kernel, dim3(grid_.blocks), dim3(grid_.threads), arguments, 0,
                                           harness::native_stream(lane(rank))),
                          lane(rank).device().name() + ": launching a direct all-reduce");
    }
  }

  Grid grid_{};
  std::vector<harness::Buffer> scratch_, words_;  // of each rank; words: flags, launches, missed
  std::vector<DirectCall> calls_;                 // of each rank, without the vectors
};

}  // namespace

std::optional<std::string> direct_refuses(const Problem& problem, Collective collective, std::string_view shot) {
  const harness::Devices& devices = *problem.devices;
  if (collective != Collective::allreduce) return "direct does all-reduce only";
  if (shot != one_shot && shot != two_shot) return "direct has the algorithms one_shot and two_shot only";
  if (devices.size() > most_direct_ranks) {
    return "direct takes up to " + std::to_string(most_direct_ranks) + " ranks, and there are " +
           std::to_string(devices.size());
  }
  for (Rank reader = 0; reader < devices.size(); ++reader) {
    if (!harness::gpu_if_any(devices[reader])) {
      return "direct takes GPUs only, and " + devices[reader].name() + " is none";
    }
  }
  for (Rank reader = 0; reader < devices.size(); ++reader) {
    for (Rank owner = 0; owner < devices.size(); ++owner) {
      if (reader == owner || devices.route(reader, owner) != harness::Route::staged) continue;
      return devices[reader].name() + " cannot read the memory of " + devices[owner].name() +
             " directly, which direct needs";
    }
  }
  int full = 0;
  if (grid_of(problem, shot_of(shot), full).blocks > 0) return std::nullopt;
  return "the kernels of all ranks on GPU " + std::to_string(full) + " must run at once, and do not fit there";
}

std::unique_ptr<Program> prepare_direct(const Problem& problem, std::string_view shot) {
  return std::make_unique<DirectProgram>(problem, shot_of(shot));
}

}  // namespace allreduce
