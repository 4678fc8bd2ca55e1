// SPDX-License-Identifier: Apache-2.0
// The bodies of the kernels of engines/direct.cpp. A rank's kernel puts its vector where peers read it, and the ranks
// meet over flags in device memory; block b of a rank meets block b of its peers only. As in
// harness/device/kernels.cuh, a plain C++ compiler can be taught all that they use.
#pragma once

#ifdef __CUDACC__
#include <cuda/atomic>
#else
#include <atomic>
#endif

#include <cstddef>
#include <cstdint>

#include "allreduce/engines/direct_kernels.hpp"
#include "harness/device/kernels.cuh"

namespace allreduce::kernels {

// A flag that one rank raises and another looks at: what was written before it was raised is seen by who has seen it.
#ifdef __CUDACC__
using Flag = cuda::atomic_ref<std::uint32_t, cuda::thread_scope_system>;
constexpr auto acquire = cuda::memory_order_acquire, release = cuda::memory_order_release;
#else
using Flag = std::atomic_ref<std::uint32_t>;
constexpr auto acquire = std::memory_order_acquire, release = std::memory_order_release;
#endif
__device__ inline void raise(std::uint32_t* flag, std::uint32_t to) { Flag(*flag).store(to, release); }
__device__ inline std::uint32_t look(std::uint32_t* flag) { return Flag(*flag).load(acquire); }

// The one function through which kernels wait for other kernels: until the flag has come to `meeting`. False after
// `limit` cycles of the GPU's clock.
__device__ inline bool wait(std::uint32_t* flag, std::uint32_t meeting, long long limit) {
  const long long begin = clock64();
  while (static_cast<std::int32_t>(look(flag) - meeting) < 0) {  // numbers wrap around
    if (clock64() - begin > limit) return false;
  }
  return true;
}

// All ranks' blocks of this number come to their `meeting`; what they wrote before can then be read. False for all
// threads of the block when a rank did not come.
__device__ inline bool meet(const DirectCall& call, std::uint32_t meeting) {
  __syncthreads();  // whoever sees the flag sees what all threads of the block wrote
  bool missing = false;
  const auto peer = static_cast<int>(threadIdx.x);
  if (peer < call.ranks) {
    raise(call.arrived[peer] + blockIdx.x * most_direct_ranks + call.rank, meeting);
    missing = !wait(call.arrived[call.rank] + blockIdx.x * most_direct_ranks + peer, meeting,
                    *call.missed == 0 ? call.limit : 0);  // in vain once, then no more of it
    if (missing) *call.missed = static_cast<std::uint32_t>(peer) + 1;
  }
  return __syncthreads_or(missing ? 1 : 0) == 0;
}

// This block's part of a launch. Which half of the scratch it uses alternates: a rank writes into one only after a
// meeting in the other, to which peers come when they have read what stood there before. So no last meeting is needed.
template <typename Stored>
struct Part {
  using Pack = harness::kernels::Pack<Stored>;
  using Arithmetic = harness::kernels::Arithmetic<Stored>;

  const DirectCall& call;
  const std::uint32_t launch;  // how many came before; in device memory, since arguments are frozen in a recorded graph
  const std::size_t packs, begin, stride;

  __device__ explicit Part(const DirectCall& of)
      : call(of),
        launch(of.launches[blockIdx.x]),
        packs((of.count + Pack::width - 1) / Pack::width),
        begin(std::size_t(blockIdx.x) * blockDim.x + threadIdx.x),
        stride(std::size_t(gridDim.x) * blockDim.x) {}

  __device__ Pack* shared(int rank) const { return static_cast<Pack*>(call.scratch[rank]) + launch % 2 * packs; }

  __device__ bool is_whole(std::size_t pack) const { return call.aligned && (pack + 1) * Pack::width <= call.count; }

  __device__ void put(std::size_t pack) const {
    const auto* from = static_cast<const Stored*>(call.input);
    if (is_whole(pack)) {
      shared(call.rank)[pack] = reinterpret_cast<const Pack*>(from)[pack];
      return;
    }
    for (int k = 0; k < Pack::width && pack * Pack::width + k < call.count; ++k) {
      shared(call.rank)[pack].element[k] = from[pack * Pack::width + k];
    }
  }

  __device__ void keep(std::size_t pack, const Pack& value) const {
    auto* into = static_cast<Stored*>(call.output);
    if (is_whole(pack)) {
      reinterpret_cast<Pack*>(into)[pack] = value;
      return;
    }
    for (int k = 0; k < Pack::width && pack * Pack::width + k < call.count; ++k) {
      into[pack * Pack::width + k] = value.element[k];
    }
  }

  // Of all ranks, added in their order and rounded once.
  template <harness::Op op>
  __device__ Pack total(std::size_t pack) const {
    typename Arithmetic::Value sums[Pack::width];
    const Pack first = shared(0)[pack];
    for (int k = 0; k < Pack::width; ++k) sums[k] = Arithmetic::load(first.element[k]);
    for (int rank = 1; rank < call.ranks; ++rank) {
      const Pack next = shared(rank)[pack];
      for (int k = 0; k < Pack::width; ++k) {
        sums[k] = harness::kernels::combine<op>(sums[k], Arithmetic::load(next.element[k]));
      }
    }
    Pack result;
    for (int k = 0; k < Pack::width; ++k) {
      if (call.divisor > 1) sums[k] = sums[k] / static_cast<typename Arithmetic::Value>(call.divisor);
      result.element[k] = Arithmetic::store(sums[k]);
    }
    return result;
  }

  // After a meeting, before which all threads have read it.
  __device__ void end() const {
    if (threadIdx.x == 0) call.launches[blockIdx.x] = launch + 1;
  }
};

// Every rank reads all vectors and adds them: one meeting, (n-1) vectors read.
template <typename Stored, harness::Op op>
__global__ void one_shot(DirectCall call) {
  const Part<Stored> part(call);
  for (std::size_t pack = part.begin; pack < part.packs; pack += part.stride) part.put(pack);
  if (!meet(call, part.launch + 1)) return;
  for (std::size_t pack = part.begin; pack < part.packs; pack += part.stride) {
    part.keep(pack, part.template total<op>(pack));
  }
  part.end();
}

// Every rank adds its slice of all vectors, then reads the other slices: two meetings, 2 (n-1)/n vectors read. A sum
// takes the place of this rank's own part of it, which no peer reads.
template <typename Stored, harness::Op op>
__global__ void two_shot(DirectCall call) {
  const Part<Stored> part(call);
  const std::size_t slice = (part.packs + call.ranks - 1) / call.ranks;
  for (std::size_t at = part.begin; at < slice; at += part.stride) {
    for (std::size_t pack = at; pack < part.packs; pack += slice) part.put(pack);
  }
  if (!meet(call, 2 * part.launch + 1)) return;
  for (std::size_t at = part.begin; at < slice; at += part.stride) {
    const std::size_t pack = call.rank * slice + at;
    if (pack < part.packs) part.shared(call.rank)[pack] = part.template total<op>(pack);
  }
  if (!meet(call, 2 * part.launch + 2)) return;
  for (std::size_t at = part.begin; at < slice; at += part.stride) {
    for (int rank = 0; rank < call.ranks; ++rank) {
      const std::size_t pack = rank * slice + at;
      if (pack < part.packs) part.keep(pack, part.shared(rank)[pack]);
    }
  }
  part.end();
}

}  // namespace allreduce::kernels
