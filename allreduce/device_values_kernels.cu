// SPDX-License-Identifier: Apache-2.0
#include "allreduce/device_values_kernels.hpp"

#include "allreduce/device_values.cuh"

namespace allreduce::kernels {

const void* fill_kernel(harness::Dtype dtype) {
  switch (dtype) {
    case harness::Dtype::f32: return reinterpret_cast<const void*>(&fill<float>);
    case harness::Dtype::f64: return reinterpret_cast<const void*>(&fill<double>);
    case harness::Dtype::f16: return reinterpret_cast<const void*>(&fill<__half>);
    case harness::Dtype::bf16: return reinterpret_cast<const void*>(&fill<__nv_bfloat16>);
    case harness::Dtype::i32: return reinterpret_cast<const void*>(&fill<std::int32_t>);
  }
  return nullptr;
}

const void* count_wrong_kernel(harness::Dtype dtype) {
  switch (dtype) {
    case harness::Dtype::f32: return reinterpret_cast<const void*>(&count_wrong<float>);
    case harness::Dtype::f64: return reinterpret_cast<const void*>(&count_wrong<double>);
    case harness::Dtype::f16: return reinterpret_cast<const void*>(&count_wrong<__half>);
    case harness::Dtype::bf16: return reinterpret_cast<const void*>(&count_wrong<__nv_bfloat16>);
    case harness::Dtype::i32: return reinterpret_cast<const void*>(&count_wrong<std::int32_t>);
  }
  return nullptr;
}

}  // namespace allreduce::kernels
