// SPDX-License-Identifier: Apache-2.0
// The functions of cuBLAS that this project calls, for the fake machine.
#include <cublas_v2.h>

#include "tests/fake_cuda/machine.hpp"
#include "tests/fake_cuda/rounding.hpp"

struct cublasContext {
  fake::Stream* stream = nullptr;
  int gpu = 0;
};

using fake::Machine;
using fake::misuse;
using fake::Rounding;

extern "C" {

const char* cublasGetStatusString(cublasStatus_t) { return "failure of the fake machine"; }
cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  Machine& machine = Machine::instance();
  const std::lock_guard<std::recursive_mutex> lock(machine.mutex);
  if (machine.enter("cublasCreate") != cudaSuccess) return CUBLAS_STATUS_NOT_INITIALIZED;
  *handle = new cublasContext{nullptr, machine.current};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  handle->stream = Machine::instance().find(stream);
  if (handle->stream->gpu != handle->gpu) misuse("cuBLAS is given a stream of another GPU than its handle's");
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t turn_a, cublasOperation_t turn_b, int m, int n,
                            int k, const void* alpha, const void* a, cudaDataType_t type_a, int lda, const void* b,
                            cudaDataType_t type_b, int ldb, const void* beta, void* c, cudaDataType_t type_c, int ldc,
                            cublasComputeType_t how, cublasGemmAlgo_t) {
  Machine& machine = Machine::instance();
  const std::lock_guard<std::recursive_mutex> lock(machine.mutex);
  if (machine.enter("cublasGemmEx") != cudaSuccess) return CUBLAS_STATUS_EXECUTION_FAILED;
  if (machine.current != handle->gpu) misuse("cuBLAS is called while another GPU than its handle's is the current one");
  if (*static_cast<const float*>(alpha) != 1 || *static_cast<const float*>(beta) != 0) {
    misuse("cuBLAS is called with scales that the fake knows nothing of");
  }
  const bool halves = type_a == CUDA_R_16BF, tf32 = how == CUBLAS_COMPUTE_32F_FAST_TF32;
  if (type_a != type_b || (!halves && type_a != CUDA_R_32F) || type_c != CUDA_R_32F || (halves && tf32) ||
      (!tf32 && how != CUBLAS_COMPUTE_32F)) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  const bool a_turned = turn_a != CUBLAS_OP_N, b_turned = turn_b != CUBLAS_OP_N;
  if (lda < (a_turned ? k : m) || ldb < (b_turned ? n : k) || ldc < m) return CUBLAS_STATUS_INVALID_VALUE;
  const Rounding type = halves ? Rounding::bf16 : Rounding::none, rounding = tf32 ? Rounding::tf32 : Rounding::none;
  const std::size_t a_size = std::size_t(lda) * (a_turned ? m : k), b_size = std::size_t(ldb) * (b_turned ? k : n);
  machine.issue(*handle->stream, {[=, gpu = handle->gpu] {
    Machine& at = Machine::instance();
    at.require_reach(gpu, {a, a_size * bytes_of(type)}, "a product of cuBLAS");
    at.require_reach(gpu, {b, b_size * bytes_of(type)}, "a product of cuBLAS");
    at.require_reach(gpu, {c, std::size_t(ldc) * n * sizeof(float)}, "a product of cuBLAS");
    const std::vector<float> left = load(a, a_size, type, rounding), right = load(b, b_size, type, rounding);
    for (int column = 0; column < n; ++column) {
      for (int row = 0; row < m; ++row) {
        double sum = 0;
        for (int i = 0; i < k; ++i) {
          const std::size_t at_a = a_turned ? std::size_t(row) * lda + i : std::size_t(i) * lda + row;
          const std::size_t at_b = b_turned ? std::size_t(i) * ldb + column : std::size_t(column) * ldb + i;
          sum += double{left[at_a]} * right[at_b];
        }
        static_cast<float*>(c)[std::size_t(column) * ldc + row] = static_cast<float>(sum);
      }
    }
  }});
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
