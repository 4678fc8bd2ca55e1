// SPDX-License-Identifier: Apache-2.0
#include "harness/device/kernels.hpp"

#include "harness/device/kernels.cuh"

namespace harness::kernels {

namespace {

struct Launch {
  const void* from;
  void* into;
  std::size_t count;
  int divisor;
  int most_blocks;
  cudaStream_t stream;
};

template <typename Stored, Op op>
cudaError_t launch(const Launch& what) {
  const auto misaligned = [](const void* address) { return reinterpret_cast<std::uintptr_t>(address) % 16; };
  std::size_t head = misaligned(what.into) == 0 ? 0 : (16 - misaligned(what.into)) / sizeof(Stored);
  if (head > what.count || misaligned(what.from) != misaligned(what.into)) head = what.count;
  const std::size_t packs = (what.count - head) / Pack<Stored>::width;
  const std::size_t work = packs > 0 ? packs : what.count;
  const std::size_t wanted = (work + threads_per_block - 1) / threads_per_block;
  const auto most = static_cast<std::size_t>(what.most_blocks);
  const auto blocks = static_cast<unsigned>(wanted < most ? wanted : most);
  reduce<Stored, op><<<blocks, threads_per_block, 0, what.stream>>>(
      static_cast<const Stored*>(what.from), static_cast<Stored*>(what.into), what.count, head, what.divisor);
  return cudaGetLastError();
}

template <Op op>
cudaError_t by_dtype(Dtype dtype, const Launch& what) {
  switch (dtype) {
    case Dtype::f32: return launch<float, op>(what);
    case Dtype::f64: return launch<double, op>(what);
    case Dtype::f16: return launch<__half, op>(what);
    case Dtype::bf16: return launch<__nv_bfloat16, op>(what);
    case Dtype::i32: return launch<std::int32_t, op>(what);
  }
  return cudaErrorInvalidValue;
}

}  // namespace

cudaError_t launch_reduce(const void* from, void* into, std::size_t count, const Reduction& reduction, int most_blocks,
                          cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  const Launch what{from, into, count, reduction.divisor, most_blocks, stream};
  switch (reduction.op) {
    case Op::sum:
    case Op::avg: return by_dtype<Op::sum>(reduction.dtype, what);
    case Op::min: return by_dtype<Op::min>(reduction.dtype, what);
    case Op::max: return by_dtype<Op::max>(reduction.dtype, what);
    case Op::prod: return by_dtype<Op::prod>(reduction.dtype, what);
  }
  return cudaErrorInvalidValue;
}

}  // namespace harness::kernels
