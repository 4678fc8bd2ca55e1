// SPDX-License-Identifier: Apache-2.0
// The functions of cuBLAS that this project calls, for the fake machine.
#include <cublas_v2.h>

#include "tests/fake_cuda/machine.hpp"

struct cublasContext {
  fake::Stream* stream = nullptr;
  int gpu = 0;
};

using fake::Machine;
using fake::misuse;

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
cublasStatus_t cublasSgemm_v2(cublasHandle_t handle, cublasOperation_t turn_a, cublasOperation_t turn_b, int m, int n,
                              int k, const float* alpha, const float* a, int lda, const float* b, int ldb,
                              const float* beta, float* c, int ldc) {
  Machine& machine = Machine::instance();
  const std::lock_guard<std::recursive_mutex> lock(machine.mutex);
  if (machine.enter("cublasSgemm") != cudaSuccess) return CUBLAS_STATUS_EXECUTION_FAILED;
  if (*alpha != 1 || *beta != 0) misuse("cuBLAS is called with scales that the fake knows nothing of");
  const bool a_turned = turn_a != CUBLAS_OP_N, b_turned = turn_b != CUBLAS_OP_N;
  if (lda < (a_turned ? k : m) || ldb < (b_turned ? n : k) || ldc < m) return CUBLAS_STATUS_INVALID_VALUE;
  const auto bytes = [](int lead, int columns) { return static_cast<std::size_t>(lead) * columns * sizeof(float); };
  machine.issue(*handle->stream, {[=, gpu = handle->gpu] {
    Machine& at = Machine::instance();
    at.require_reach(gpu, {a, bytes(lda, a_turned ? m : k)}, "a product of cuBLAS");
    at.require_reach(gpu, {b, bytes(ldb, b_turned ? k : n)}, "a product of cuBLAS");
    at.require_reach(gpu, {c, bytes(ldc, n)}, "a product of cuBLAS");
    for (int column = 0; column < n; ++column) {
      for (int row = 0; row < m; ++row) {
        double sum = 0;
        for (int i = 0; i < k; ++i) {
          const std::size_t at_a = a_turned ? std::size_t(row) * lda + i : std::size_t(i) * lda + row;
          const std::size_t at_b = b_turned ? std::size_t(i) * ldb + column : std::size_t(column) * ldb + i;
          sum += double{a[at_a]} * b[at_b];
        }
        c[std::size_t(column) * ldc + row] = static_cast<float>(sum);
      }
    }
  }});
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
