# SPDX-License-Identifier: Apache-2.0
message(STATUS "Ringmark ${PROJECT_VERSION}: oneDNN ${dnnl_VERSION} (found: ${dnnl_FOUND}), "
               "Google Benchmark ${benchmark_VERSION}, native ${RINGMARK_NATIVE}, sanitizers '${RINGMARK_SANITIZE}', CUDA ${RINGMARK_HAS_CUDA}, "
               "NCCL ${RINGMARK_HAS_NCCL}, cuDNN ${RINGMARK_HAS_CUDNN}, "
               "MPI ${RINGMARK_HAS_MPI}, Gloo ${RINGMARK_HAS_GLOO}")
