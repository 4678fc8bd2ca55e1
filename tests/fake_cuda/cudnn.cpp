// SPDX-License-Identifier: Apache-2.0
// The functions of cuDNN that this project calls, for the fake machine: loops over host memory with sums in double,
// issued as work of the handle's stream. Only what is used: f32, [image][channel][row][column], square windows.
#include <cudnn.h>

#include <algorithm>
#include <cstring>

#include "tests/fake_cuda/machine.hpp"

struct cudnnContext {
  fake::Stream* stream = nullptr;
  int gpu = 0;
};
struct cudnnTensorStruct {
  int n = 0, c = 0, h = 0, w = 0;
  std::size_t size() const { return static_cast<std::size_t>(n) * c * h * w; }
  std::size_t at(int image, int channel, int row = 0, int column = 0) const {
    return ((static_cast<std::size_t>(image) * c + channel) * h + row) * w + column;
  }
};
struct cudnnFilterStruct {
  int k = 0, c = 0, r = 0, s = 0;
  std::size_t size() const { return static_cast<std::size_t>(k) * c * r * s; }
};
struct cudnnConvolutionStruct {
  int padding = 0, stride = 1;
};
struct cudnnPoolingStruct {
  int side = 1;
};
struct cudnnActivationStruct {};

namespace {

using fake::Machine;
using fake::misuse;

// What a call reads and writes is looked at when it runs, as a kernel's is.
struct Span {
  const void* data;
  std::size_t floats;
};

cudnnStatus_t issue(cudnnHandle_t handle, const char* name, std::vector<Span> spans, std::function<void()> work) {
  Machine& machine = Machine::instance();
  const std::lock_guard<std::recursive_mutex> lock(machine.mutex);
  if (machine.enter(name) != cudaSuccess) return CUDNN_STATUS_EXECUTION_FAILED;
  if (!handle->stream) misuse("cuDNN was given no stream");
  machine.issue(*handle->stream, {[spans = std::move(spans), work = std::move(work), gpu = handle->gpu, name] {
    for (const Span& span : spans) {
      Machine::instance().require_reach(gpu, {span.data, span.floats * sizeof(float)}, name);
    }
    work();
  }});
  return CUDNN_STATUS_SUCCESS;
}

const float* floats(const void* data) { return static_cast<const float*>(data); }
float* floats(void* data) { return static_cast<float*>(data); }

void require_scales(const void* alpha, const void* beta, float wanted) {
  if (*floats(alpha) != 1 || *floats(beta) != wanted)
    misuse("cuDNN is called with scales that the fake knows nothing of");
}

template <typename Descriptor>
cudnnStatus_t make(Descriptor** descriptor) {
  *descriptor = new Descriptor;
  return CUDNN_STATUS_SUCCESS;
}
template <typename Descriptor>
cudnnStatus_t drop(Descriptor* descriptor) {
  delete descriptor;
  return CUDNN_STATUS_SUCCESS;
}

// Visits every product of a convolution: (place in x, place in w, place in y), for one image.
template <typename Visit>
void each_product(const cudnnTensorStruct& x, const cudnnFilterStruct& w, const cudnnConvolutionStruct& how,
                  const cudnnTensorStruct& y, int image, int to, Visit&& visit) {
  for (int from = 0; from < x.c; ++from) {
    for (int r = 0; r < w.r; ++r) {
      for (int s = 0; s < w.s; ++s) {
        const std::size_t weight = ((static_cast<std::size_t>(to) * w.c + from) * w.r + r) * w.s + s;
        for (int row = 0; row < y.h; ++row) {
          const int in_row = row * how.stride + r - how.padding;
          if (in_row < 0 || in_row >= x.h) continue;
          for (int column = 0; column < y.w; ++column) {
            const int in_column = column * how.stride + s - how.padding;
            if (in_column < 0 || in_column >= x.w) continue;
            visit(x.at(image, from, in_row, in_column), weight, y.at(image, to, row, column));
          }
        }
      }
    }
  }
}

template <typename Found, typename Algorithm>
cudnnStatus_t offer(Found* found, int* count, Algorithm algorithm) {
  found[0] = {};
  found[0].algo = algorithm;
  found[0].status = CUDNN_STATUS_SUCCESS;
  found[0].memory = 1024;
  found[0].determinism = CUDNN_DETERMINISTIC;
  *count = 1;
  return CUDNN_STATUS_SUCCESS;
}

void require_workspace(const void* workspace, std::size_t bytes) {
  if (!workspace || bytes < 1024) misuse("cuDNN is given less workspace than it asked for");
}

}  // namespace

extern "C" {

const char* cudnnGetErrorString(cudnnStatus_t) { return "failure of the fake machine"; }
cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  Machine& machine = Machine::instance();
  const std::lock_guard<std::recursive_mutex> lock(machine.mutex);
  if (machine.enter("cudnnCreate") != cudaSuccess) return CUDNN_STATUS_NOT_INITIALIZED;
  *handle = new cudnnContext{nullptr, machine.current};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) { return drop(handle); }
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  handle->stream = Machine::instance().find(stream);
  if (handle->stream->gpu != handle->gpu) misuse("cuDNN is given a stream of another GPU than its handle's");
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t* descriptor) { return make(descriptor); }
cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t descriptor) { return drop(descriptor); }
cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t* descriptor) { return make(descriptor); }
cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t descriptor) { return drop(descriptor); }
cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t* descriptor) { return make(descriptor); }
cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t descriptor) { return drop(descriptor); }
cudnnStatus_t cudnnCreatePoolingDescriptor(cudnnPoolingDescriptor_t* descriptor) { return make(descriptor); }
cudnnStatus_t cudnnDestroyPoolingDescriptor(cudnnPoolingDescriptor_t descriptor) { return drop(descriptor); }
cudnnStatus_t cudnnCreateActivationDescriptor(cudnnActivationDescriptor_t* descriptor) { return make(descriptor); }
cudnnStatus_t cudnnDestroyActivationDescriptor(cudnnActivationDescriptor_t descriptor) { return drop(descriptor); }

cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t tensor, cudnnTensorFormat_t format,
                                         cudnnDataType_t type, int n, int c, int h, int w) {
  if (format != CUDNN_TENSOR_NCHW || type != CUDNN_DATA_FLOAT || n < 1) return CUDNN_STATUS_BAD_PARAM;
  *tensor = {n, c, h, w};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t filter, cudnnDataType_t type, cudnnTensorFormat_t,
                                         int k, int c, int h, int w) {
  if (type != CUDNN_DATA_FLOAT) return CUDNN_STATUS_BAD_PARAM;
  *filter = {k, c, h, w};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t how, int padding, int, int stride, int, int,
                                              int, cudnnConvolutionMode_t mode, cudnnDataType_t) {
  if (mode != CUDNN_CROSS_CORRELATION) return CUDNN_STATUS_BAD_PARAM;
  *how = {padding, stride};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t, cudnnMathType_t) {
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetPooling2dDescriptor(cudnnPoolingDescriptor_t how, cudnnPoolingMode_t mode, cudnnNanPropagation_t,
                                          int side, int, int, int, int, int) {
  if (mode != CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING) return CUDNN_STATUS_BAD_PARAM;
  *how = {side};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetActivationDescriptor(cudnnActivationDescriptor_t, cudnnActivationMode_t mode,
                                           cudnnNanPropagation_t, double) {
  return mode == CUDNN_ACTIVATION_RELU ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(cudnnHandle_t, const cudnnTensorDescriptor_t,
                                                     const cudnnFilterDescriptor_t, const cudnnConvolutionDescriptor_t,
                                                     const cudnnTensorDescriptor_t, const int, int* count,
                                                     cudnnConvolutionFwdAlgoPerf_t* found) {
  return offer(found, count, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM);
}
cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(cudnnHandle_t, const cudnnTensorDescriptor_t,
                                                            const cudnnTensorDescriptor_t,
                                                            const cudnnConvolutionDescriptor_t,
                                                            const cudnnFilterDescriptor_t, const int, int* count,
                                                            cudnnConvolutionBwdFilterAlgoPerf_t* found) {
  return offer(found, count, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1);
}
cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(cudnnHandle_t, const cudnnFilterDescriptor_t,
                                                          const cudnnTensorDescriptor_t,
                                                          const cudnnConvolutionDescriptor_t,
                                                          const cudnnTensorDescriptor_t, const int, int* count,
                                                          cudnnConvolutionBwdDataAlgoPerf_t* found) {
  return offer(found, count, CUDNN_CONVOLUTION_BWD_DATA_ALGO_1);
}

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void* alpha, const cudnnTensorDescriptor_t x_desc,
                                      const void* x, const cudnnFilterDescriptor_t w_desc, const void* w,
                                      const cudnnConvolutionDescriptor_t how, cudnnConvolutionFwdAlgo_t,
                                      void* workspace, std::size_t workspace_bytes, const void* beta,
                                      const cudnnTensorDescriptor_t y_desc, void* y) {
  require_scales(alpha, beta, 0);
  require_workspace(workspace, workspace_bytes);
  return issue(handle, "cudnnConvolutionForward", {{x, x_desc->size()}, {w, w_desc->size()}, {y, y_desc->size()}},
               [=, xd = *x_desc, wd = *w_desc, hd = *how, yd = *y_desc] {
                 std::vector<double> sums(yd.size());
                 for (int image = 0; image < yd.n; ++image) {
                   for (int to = 0; to < yd.c; ++to) {
                     each_product(xd, wd, hd, yd, image, to, [&](std::size_t a, std::size_t b, std::size_t c) {
                       sums[c] += double{floats(x)[a]} * floats(w)[b];
                     });
                   }
                 }
                 std::transform(sums.begin(), sums.end(), floats(y),
                                [](double sum) { return static_cast<float>(sum); });
               });
}
cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t handle, const void* alpha,
                                             const cudnnTensorDescriptor_t x_desc, const void* x,
                                             const cudnnTensorDescriptor_t y_desc, const void* dy,
                                             const cudnnConvolutionDescriptor_t how, cudnnConvolutionBwdFilterAlgo_t,
                                             void* workspace, std::size_t workspace_bytes, const void* beta,
                                             const cudnnFilterDescriptor_t w_desc, void* dw) {
  require_scales(alpha, beta, 0);
  require_workspace(workspace, workspace_bytes);
  return issue(
      handle, "cudnnConvolutionBackwardFilter", {{x, x_desc->size()}, {dy, y_desc->size()}, {dw, w_desc->size()}},
      [=, xd = *x_desc, wd = *w_desc, hd = *how, yd = *y_desc] {
        std::vector<double> sums(wd.size());
        for (int image = 0; image < yd.n; ++image) {
          for (int to = 0; to < yd.c; ++to) {
            each_product(xd, wd, hd, yd, image, to, [&](std::size_t a, std::size_t b, std::size_t c) {
              sums[b] += double{floats(x)[a]} * floats(dy)[c];
            });
          }
        }
        std::transform(sums.begin(), sums.end(), floats(dw), [](double sum) { return static_cast<float>(sum); });
      });
}
cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void* alpha,
                                           const cudnnFilterDescriptor_t w_desc, const void* w,
                                           const cudnnTensorDescriptor_t y_desc, const void* dy,
                                           const cudnnConvolutionDescriptor_t how, cudnnConvolutionBwdDataAlgo_t,
                                           void* workspace, std::size_t workspace_bytes, const void* beta,
                                           const cudnnTensorDescriptor_t x_desc, void* dx) {
  require_scales(alpha, beta, 0);
  require_workspace(workspace, workspace_bytes);
  return issue(
      handle, "cudnnConvolutionBackwardData", {{w, w_desc->size()}, {dy, y_desc->size()}, {dx, x_desc->size()}},
      [=, xd = *x_desc, wd = *w_desc, hd = *how, yd = *y_desc] {
        std::vector<double> sums(xd.size());
        for (int image = 0; image < yd.n; ++image) {
          for (int to = 0; to < yd.c; ++to) {
            each_product(xd, wd, hd, yd, image, to, [&](std::size_t a, std::size_t b, std::size_t c) {
              sums[a] += double{floats(w)[b]} * floats(dy)[c];
            });
          }
        }
        std::transform(sums.begin(), sums.end(), floats(dx), [](double sum) { return static_cast<float>(sum); });
      });
}
cudnnStatus_t cudnnConvolutionBackwardBias(cudnnHandle_t handle, const void* alpha,
                                           const cudnnTensorDescriptor_t y_desc, const void* dy, const void* beta,
                                           const cudnnTensorDescriptor_t b_desc, void* db) {
  require_scales(alpha, beta, 0);
  return issue(handle, "cudnnConvolutionBackwardBias", {{dy, y_desc->size()}, {db, b_desc->size()}}, [=, yd = *y_desc] {
    for (int channel = 0; channel < yd.c; ++channel) {
      double sum = 0;
      for (int image = 0; image < yd.n; ++image) {
        const float* plane = floats(dy) + yd.at(image, channel);
        for (int i = 0; i < yd.h * yd.w; ++i) sum += plane[i];
      }
      floats(db)[channel] = static_cast<float>(sum);
    }
  });
}
cudnnStatus_t cudnnAddTensor(cudnnHandle_t handle, const void* alpha, const cudnnTensorDescriptor_t b_desc,
                             const void* bias, const void* beta, const cudnnTensorDescriptor_t y_desc, void* y) {
  require_scales(alpha, beta, 1);
  if (b_desc->n != 1 || b_desc->c != y_desc->c || b_desc->h * b_desc->w != 1) return CUDNN_STATUS_BAD_PARAM;
  return issue(handle, "cudnnAddTensor", {{bias, b_desc->size()}, {y, y_desc->size()}}, [=, yd = *y_desc] {
    for (int image = 0; image < yd.n; ++image) {
      for (int channel = 0; channel < yd.c; ++channel) {
        float* plane = floats(y) + yd.at(image, channel);
        for (int i = 0; i < yd.h * yd.w; ++i) plane[i] += floats(bias)[channel];
      }
    }
  });
}

cudnnStatus_t cudnnActivationForward(cudnnHandle_t handle, cudnnActivationDescriptor_t, const void* alpha,
                                     const cudnnTensorDescriptor_t x_desc, const void* x, const void* beta,
                                     const cudnnTensorDescriptor_t, void* y) {
  require_scales(alpha, beta, 0);
  return issue(handle, "cudnnActivationForward", {{x, x_desc->size()}, {y, x_desc->size()}},
               [=, size = x_desc->size()] {
                 for (std::size_t i = 0; i < size; ++i) floats(y)[i] = floats(x)[i] > 0 ? floats(x)[i] : 0;
               });
}
cudnnStatus_t cudnnActivationBackward(cudnnHandle_t handle, cudnnActivationDescriptor_t, const void* alpha,
                                      const cudnnTensorDescriptor_t y_desc, const void* y,
                                      const cudnnTensorDescriptor_t, const void* dy, const cudnnTensorDescriptor_t,
                                      const void*, const void* beta, const cudnnTensorDescriptor_t, void* dx) {
  require_scales(alpha, beta, 0);
  return issue(handle, "cudnnActivationBackward", {{y, y_desc->size()}, {dy, y_desc->size()}, {dx, y_desc->size()}},
               [=, size = y_desc->size()] {
                 for (std::size_t i = 0; i < size; ++i) floats(dx)[i] = floats(y)[i] > 0 ? floats(dy)[i] : 0;
               });
}

cudnnStatus_t cudnnPoolingForward(cudnnHandle_t handle, const cudnnPoolingDescriptor_t how, const void* alpha,
                                  const cudnnTensorDescriptor_t x_desc, const void* x, const void* beta,
                                  const cudnnTensorDescriptor_t y_desc, void* y) {
  require_scales(alpha, beta, 0);
  return issue(handle, "cudnnPoolingForward", {{x, x_desc->size()}, {y, y_desc->size()}},
               [=, side = how->side, xd = *x_desc, yd = *y_desc] {
                 for (int image = 0; image < yd.n; ++image) {
                   for (int c = 0; c < yd.c; ++c) {
                     for (int row = 0; row < yd.h; ++row) {
                       for (int column = 0; column < yd.w; ++column) {
                         double sum = 0;
                         for (int i = 0; i < side * side; ++i) {
                           sum += floats(x)[xd.at(image, c, row * side + i / side, column * side + i % side)];
                         }
                         floats(y)[yd.at(image, c, row, column)] = static_cast<float>(sum / (side * side));
                       }
                     }
                   }
                 }
               });
}
cudnnStatus_t cudnnPoolingBackward(cudnnHandle_t handle, const cudnnPoolingDescriptor_t how, const void* alpha,
                                   const cudnnTensorDescriptor_t y_desc, const void*, const cudnnTensorDescriptor_t,
                                   const void* dy, const cudnnTensorDescriptor_t x_desc, const void*, const void* beta,
                                   const cudnnTensorDescriptor_t, void* dx) {
  require_scales(alpha, beta, 0);
  return issue(handle, "cudnnPoolingBackward", {{dy, y_desc->size()}, {dx, x_desc->size()}},
               [=, side = how->side, xd = *x_desc, yd = *y_desc] {
                 std::fill_n(floats(dx), xd.size(), 0.0F);
                 for (int image = 0; image < yd.n; ++image) {
                   for (int c = 0; c < yd.c; ++c) {
                     for (int row = 0; row < yd.h * side; ++row) {
                       for (int column = 0; column < yd.w * side; ++column) {
                         floats(dx)[xd.at(image, c, row, column)] =
                             floats(dy)[yd.at(image, c, row / side, column / side)] / static_cast<float>(side * side);
                       }
                     }
                   }
                 }
               });
}

}  // extern "C"
