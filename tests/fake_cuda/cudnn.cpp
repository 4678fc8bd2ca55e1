// SPDX-License-Identifier: Apache-2.0
// The functions of cuDNN that this project calls, for the fake machine, issued as work of the handle's stream:
// convolutions by oneDNN, since loops would take minutes, the rest loops over host memory with sums in double. Only
// what is used: f32, and for convolutions bfloat16 too; [image][channel][row][column], square windows.
#include <cudnn.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <unordered_map>
#include <vector>

#include "models/backends/onednn_compat.hpp"
#include "tests/fake_cuda/machine.hpp"
#include "tests/fake_cuda/rounding.hpp"

struct cudnnContext {
  fake::Stream* stream = nullptr;
  int gpu = 0;
};
struct cudnnTensorStruct {
  int n = 0, c = 0, h = 0, w = 0;
  fake::Rounding type = fake::Rounding::none;
  std::size_t size() const { return static_cast<std::size_t>(n) * c * h * w; }
  std::size_t at(int image, int channel, int row = 0, int column = 0) const {
    return ((static_cast<std::size_t>(image) * c + channel) * h + row) * w + column;
  }
};
struct cudnnFilterStruct {
  int k = 0, c = 0, r = 0, s = 0;
  fake::Rounding type = fake::Rounding::none;
  std::size_t size() const { return static_cast<std::size_t>(k) * c * r * s; }
};
struct cudnnConvolutionStruct {
  int padding = 0, stride = 1;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
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
  std::size_t count;
  fake::Rounding type = fake::Rounding::none;
};

cudnnStatus_t issue(cudnnHandle_t handle, const char* name, std::vector<Span> spans, std::function<void()> work) {
  Machine& machine = Machine::instance();
  const std::lock_guard<std::recursive_mutex> lock(machine.mutex);
  if (machine.enter(name) != cudaSuccess) return CUDNN_STATUS_EXECUTION_FAILED;
  if (!handle->stream) misuse("cuDNN was given no stream");
  if (machine.current != handle->gpu) misuse("cuDNN is called while another GPU than its handle's is the current one");
  machine.issue(*handle->stream, {[spans = std::move(spans), work = std::move(work), gpu = handle->gpu, name] {
    for (const Span& span : spans) {
      Machine::instance().require_reach(gpu, {span.data, span.count * fake::bytes_of(span.type)}, name);
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

// A convolution for oneDNN, over memory in the order that cuDNN has it.
struct Convolution {
  using memory = dnnl::memory;

  Convolution(const cudnnTensorStruct& x_is, const cudnnFilterStruct& w_is, const cudnnConvolutionStruct& how,
              const cudnnTensorStruct& y_is)
      : x({x_is.n, x_is.c, x_is.h, x_is.w}, memory::data_type::f32, memory::format_tag::nchw),
        w({w_is.k, w_is.c, w_is.r, w_is.s}, memory::data_type::f32, memory::format_tag::oihw),
        y({y_is.n, y_is.c, y_is.h, y_is.w}, memory::data_type::f32, memory::format_tag::nchw),
        stride{how.stride, how.stride},
        padding{how.padding, how.padding},
        forward(models::onednn::describe<dnnl::convolution_forward>(engine(), dnnl::prop_kind::forward_training, direct,
                                                                    x, w, y, stride, padding, padding)) {}

  static const dnnl::engine& engine() {
    static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
    return cpu;
  }
  static memory at(const memory::desc& desc, const void* data) { return {desc, engine(), const_cast<void*>(data)}; }

  template <typename Primitive>
  void execute(const typename Primitive::primitive_desc& how, std::unordered_map<int, memory> arguments) const {
    std::vector<char> scratchpad(how.scratchpad_desc().get_size());
    arguments.emplace(DNNL_ARG_SCRATCHPAD, at(how.scratchpad_desc(), scratchpad.data()));
    dnnl::stream stream(engine());
    Primitive(how).execute(stream, arguments);
    stream.wait();
  }
  template <typename Primitive>
  typename Primitive::primitive_desc backward(const memory::desc& first, const memory::desc& second,
                                              const memory::desc& third) const {
    return models::onednn::describe_backward<Primitive>(engine(), forward, direct, first, second, third, stride,
                                                        padding, padding);
  }

  static constexpr auto direct = dnnl::algorithm::convolution_direct;
  const memory::desc x, w, y;
  const memory::dims stride, padding;
  const dnnl::convolution_forward::primitive_desc forward;
};

template <typename Descriptor>
Span span(const void* data, const Descriptor* descriptor) {
  return {data, descriptor->size(), descriptor->type};
}

// The product of two tensors, whose elements are rounded first as the arithmetic has it.
cudnnStatus_t convolve(cudnnHandle_t handle, const char* name, const Span& a, const Span& b, const Span& product,
                       const cudnnConvolutionStruct& how, std::function<void(float*, float*, float*)> multiply) {
  if (a.type != b.type || a.type != product.type) return CUDNN_STATUS_NOT_SUPPORTED;
  if (a.type != fake::Rounding::none && how.math == CUDNN_FMA_MATH) return CUDNN_STATUS_NOT_SUPPORTED;
  const auto rounding = how.math == CUDNN_FMA_MATH ? fake::Rounding::none : fake::Rounding::tf32;
  return issue(handle, name, {a, b, product}, [=, multiply = std::move(multiply)] {
    std::vector<float> first = fake::load(a.data, a.count, a.type, rounding);
    std::vector<float> second = fake::load(b.data, b.count, b.type, rounding);
    std::vector<float> result(product.count);
    multiply(first.data(), second.data(), result.data());
    fake::store(result, const_cast<void*>(product.data), product.type);
  });
}

template <typename Visit>
void each_of_channel(const cudnnTensorStruct& tensor, int channel, Visit&& visit) {
  for (int image = 0; image < tensor.n; ++image) {
    const std::size_t first = tensor.at(image, channel);
    for (std::size_t i = 0; i < std::size_t(tensor.h) * tensor.w; ++i) visit(first + i);
  }
}
bool fits_batch_norm(cudnnBatchNormMode_t mode, const cudnnTensorStruct& x, const cudnnTensorStruct& y,
                     const cudnnTensorStruct& channels, double epsilon) {
  const bool alike = x.n == y.n && x.c == y.c && x.h == y.h && x.w == y.w;
  return mode == CUDNN_BATCHNORM_SPATIAL && alike && channels.n == 1 && channels.c == x.c && channels.h == 1 &&
         channels.w == 1 && epsilon >= CUDNN_BN_MIN_EPSILON;
}

std::optional<fake::Rounding> rounding_of(cudnnDataType_t type) {
  if (type == CUDNN_DATA_FLOAT) return fake::Rounding::none;
  if (type == CUDNN_DATA_BFLOAT16) return fake::Rounding::bf16;
  return std::nullopt;
}

template <typename Found, typename Algorithm>
cudnnStatus_t offer(Found* found, int* count, cudnnConvolutionDescriptor_t how, Algorithm algorithm) {
  found[0] = {};
  found[0].algo = algorithm;
  found[0].status = CUDNN_STATUS_SUCCESS;
  found[0].memory = 1024;
  found[0].determinism = CUDNN_DETERMINISTIC;
  found[0].mathType = how->math;
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
  const auto known = rounding_of(type);
  if (format != CUDNN_TENSOR_NCHW || !known || n < 1) return CUDNN_STATUS_BAD_PARAM;
  *tensor = {n, c, h, w, *known};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t filter, cudnnDataType_t type, cudnnTensorFormat_t,
                                         int k, int c, int h, int w) {
  const auto known = rounding_of(type);
  if (!known) return CUDNN_STATUS_BAD_PARAM;
  *filter = {k, c, h, w, *known};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t how, int padding, int, int stride, int, int,
                                              int, cudnnConvolutionMode_t mode, cudnnDataType_t type) {
  if (mode != CUDNN_CROSS_CORRELATION || type != CUDNN_DATA_FLOAT) return CUDNN_STATUS_BAD_PARAM;
  *how = {padding, stride};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t how, cudnnMathType_t math) {
  how->math = math;
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
                                                     const cudnnFilterDescriptor_t,
                                                     const cudnnConvolutionDescriptor_t how,
                                                     const cudnnTensorDescriptor_t, const int, int* count,
                                                     cudnnConvolutionFwdAlgoPerf_t* found) {
  return offer(found, count, how, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM);
}
cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(cudnnHandle_t, const cudnnTensorDescriptor_t,
                                                            const cudnnTensorDescriptor_t,
                                                            const cudnnConvolutionDescriptor_t how,
                                                            const cudnnFilterDescriptor_t, const int, int* count,
                                                            cudnnConvolutionBwdFilterAlgoPerf_t* found) {
  return offer(found, count, how, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1);
}
cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(cudnnHandle_t, const cudnnFilterDescriptor_t,
                                                          const cudnnTensorDescriptor_t,
                                                          const cudnnConvolutionDescriptor_t how,
                                                          const cudnnTensorDescriptor_t, const int, int* count,
                                                          cudnnConvolutionBwdDataAlgoPerf_t* found) {
  return offer(found, count, how, CUDNN_CONVOLUTION_BWD_DATA_ALGO_1);
}

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void* alpha, const cudnnTensorDescriptor_t x_desc,
                                      const void* x, const cudnnFilterDescriptor_t w_desc, const void* w,
                                      const cudnnConvolutionDescriptor_t how, cudnnConvolutionFwdAlgo_t,
                                      void* workspace, std::size_t workspace_bytes, const void* beta,
                                      const cudnnTensorDescriptor_t y_desc, void* y) {
  require_scales(alpha, beta, 0);
  require_workspace(workspace, workspace_bytes);
  return convolve(handle, "cudnnConvolutionForward", span(x, x_desc), span(w, w_desc), span(y, y_desc), *how,
                  [call = Convolution(*x_desc, *w_desc, *how, *y_desc)](float* source, float* weights, float* result) {
                    call.execute<dnnl::convolution_forward>(call.forward, {{DNNL_ARG_SRC, call.at(call.x, source)},
                                                                           {DNNL_ARG_WEIGHTS, call.at(call.w, weights)},
                                                                           {DNNL_ARG_DST, call.at(call.y, result)}});
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
  return convolve(handle, "cudnnConvolutionBackwardFilter", span(x, x_desc), span(dy, y_desc), span(dw, w_desc), *how,
                  [call = Convolution(*x_desc, *w_desc, *how, *y_desc)](float* source, float* change, float* result) {
                    using Primitive = dnnl::convolution_backward_weights;
                    call.execute<Primitive>(call.backward<Primitive>(call.x, call.w, call.y),
                                            {{DNNL_ARG_SRC, call.at(call.x, source)},
                                             {DNNL_ARG_DIFF_DST, call.at(call.y, change)},
                                             {DNNL_ARG_DIFF_WEIGHTS, call.at(call.w, result)}});
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
  return convolve(handle, "cudnnConvolutionBackwardData", span(w, w_desc), span(dy, y_desc), span(dx, x_desc), *how,
                  [call = Convolution(*x_desc, *w_desc, *how, *y_desc)](float* weights, float* change, float* result) {
                    using Primitive = dnnl::convolution_backward_data;
                    call.execute<Primitive>(call.backward<Primitive>(call.x, call.w, call.y),
                                            {{DNNL_ARG_WEIGHTS, call.at(call.w, weights)},
                                             {DNNL_ARG_DIFF_DST, call.at(call.y, change)},
                                             {DNNL_ARG_DIFF_SRC, call.at(call.x, result)}});
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

cudnnStatus_t cudnnBatchNormalizationForwardTraining(cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void* alpha,
                                                     const void* beta, const cudnnTensorDescriptor_t x_desc,
                                                     const void* x, const cudnnTensorDescriptor_t y_desc, void* y,
                                                     const cudnnTensorDescriptor_t c_desc, const void* scale,
                                                     const void* shift, double replaced, void* running_mean,
                                                     void* running_variance, double epsilon, void* mean,
                                                     void* deviation) {
  require_scales(alpha, beta, 0);
  if (!fits_batch_norm(mode, *x_desc, *y_desc, *c_desc, epsilon)) return CUDNN_STATUS_BAD_PARAM;
  const std::size_t size = x_desc->size(), channels = c_desc->size();
  return issue(handle, "cudnnBatchNormalizationForwardTraining",
               {{x, size},
                {y, size},
                {scale, channels},
                {shift, channels},
                {running_mean, channels},
                {running_variance, channels},
                {mean, channels},
                {deviation, channels}},
               [=, xd = *x_desc] {
                 const double count = double(xd.n) * xd.h * xd.w;
                 for (int c = 0; c < xd.c; ++c) {
                   double sum = 0, square = 0;
                   each_of_channel(xd, c, [&](std::size_t i) { sum += floats(x)[i]; });
                   const double middle = sum / count;
                   each_of_channel(xd, c, [&](std::size_t i) { square += std::pow(floats(x)[i] - middle, 2); });
                   const double inverse = 1 / std::sqrt(square / count + epsilon);
                   const auto move = [&](void* running, double now) {
                     floats(running)[c] = static_cast<float>((1 - replaced) * floats(running)[c] + replaced * now);
                   };
                   move(running_mean, middle);
                   move(running_variance, square / std::max(count - 1, 1.0));
                   floats(mean)[c] = static_cast<float>(middle);
                   floats(deviation)[c] = static_cast<float>(inverse);
                   each_of_channel(xd, c, [&](std::size_t i) {
                     floats(y)[i] =
                         static_cast<float>((floats(x)[i] - middle) * inverse * floats(scale)[c] + floats(shift)[c]);
                   });
                 }
               });
}
cudnnStatus_t cudnnBatchNormalizationForwardInference(cudnnHandle_t handle, cudnnBatchNormMode_t mode,
                                                      const void* alpha, const void* beta,
                                                      const cudnnTensorDescriptor_t x_desc, const void* x,
                                                      const cudnnTensorDescriptor_t y_desc, void* y,
                                                      const cudnnTensorDescriptor_t c_desc, const void* scale,
                                                      const void* shift, const void* mean, const void* variance,
                                                      double epsilon) {
  require_scales(alpha, beta, 0);
  if (!fits_batch_norm(mode, *x_desc, *y_desc, *c_desc, epsilon)) return CUDNN_STATUS_BAD_PARAM;
  const std::size_t size = x_desc->size(), channels = c_desc->size();
  return issue(handle, "cudnnBatchNormalizationForwardInference",
               {{x, size}, {y, size}, {scale, channels}, {shift, channels}, {mean, channels}, {variance, channels}},
               [=, xd = *x_desc] {
                 for (int c = 0; c < xd.c; ++c) {
                   const double factor = floats(scale)[c] / std::sqrt(floats(variance)[c] + epsilon);
                   each_of_channel(xd, c, [&](std::size_t i) {
                     floats(y)[i] =
                         static_cast<float>((double{floats(x)[i]} - floats(mean)[c]) * factor + floats(shift)[c]);
                   });
                 }
               });
}
// With n the normalised input: gradient of x = scale / deviation * (dy - mean(dy) - n * mean(dy n)).
cudnnStatus_t cudnnBatchNormalizationBackward(cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void* alpha,
                                              const void* beta, const void* parameter_alpha, const void* parameter_beta,
                                              const cudnnTensorDescriptor_t x_desc, const void* x,
                                              const cudnnTensorDescriptor_t y_desc, const void* dy,
                                              const cudnnTensorDescriptor_t, void* dx,
                                              const cudnnTensorDescriptor_t c_desc, const void* scale, void* dscale,
                                              void* dshift, double epsilon, const void* mean, const void* deviation) {
  require_scales(alpha, beta, 0);
  require_scales(parameter_alpha, parameter_beta, 0);
  if (!fits_batch_norm(mode, *x_desc, *y_desc, *c_desc, epsilon) || !mean || !deviation) return CUDNN_STATUS_BAD_PARAM;
  const std::size_t size = x_desc->size(), channels = c_desc->size();
  return issue(handle, "cudnnBatchNormalizationBackward",
               {{x, size},
                {dy, size},
                {dx, size},
                {scale, channels},
                {dscale, channels},
                {dshift, channels},
                {mean, channels},
                {deviation, channels}},
               [=, xd = *x_desc] {
                 const double count = double(xd.n) * xd.h * xd.w;
                 for (int c = 0; c < xd.c; ++c) {
                   const double middle = floats(mean)[c], inverse = floats(deviation)[c];
                   const auto normal = [&](std::size_t i) { return (floats(x)[i] - middle) * inverse; };
                   double sum = 0, product = 0;
                   each_of_channel(xd, c, [&](std::size_t i) {
                     sum += floats(dy)[i];
                     product += floats(dy)[i] * normal(i);
                   });
                   floats(dscale)[c] = static_cast<float>(product);
                   floats(dshift)[c] = static_cast<float>(sum);
                   each_of_channel(xd, c, [&](std::size_t i) {
                     floats(dx)[i] = static_cast<float>(floats(scale)[c] * inverse *
                                                        (floats(dy)[i] - sum / count - normal(i) * product / count));
                   });
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
