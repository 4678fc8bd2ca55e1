// SPDX-License-Identifier: Apache-2.0
#include "allreduce/engines/direct.cuh"

namespace allreduce::kernels {

namespace {

template <typename Stored, harness::Op op>
const void* by_shot(DirectShot shot) {
  return shot == DirectShot::one ? reinterpret_cast<const void*>(&one_shot<Stored, op>)
                                 : reinterpret_cast<const void*>(&two_shot<Stored, op>);
}

template <typename Stored>
const void* by_op(DirectShot shot, harness::Op op) {
  switch (op) {
    case harness::Op::min: return by_shot<Stored, harness::Op::min>(shot);
    case harness::Op::max: return by_shot<Stored, harness::Op::max>(shot);
    case harness::Op::prod: return by_shot<Stored, harness::Op::prod>(shot);
    default: return by_shot<Stored, harness::Op::sum>(shot);
  }
}

}  // namespace

const void* direct_kernel(DirectShot shot, const harness::Reduction& reduction) {
  switch (reduction.dtype) {
    case harness::Dtype::f32: return by_op<float>(shot, reduction.op);
    case harness::Dtype::f64: return by_op<double>(shot, reduction.op);
    case harness::Dtype::f16: return by_op<__half>(shot, reduction.op);
    case harness::Dtype::bf16: return by_op<__nv_bfloat16>(shot, reduction.op);
    case harness::Dtype::i32: return by_op<std::int32_t>(shot, reduction.op);
  }
  return nullptr;
}

}  // namespace allreduce::kernels
