// SPDX-License-Identifier: Apache-2.0
// What layers by NVIDIA's libraries are made of: cuDNN's descriptors, activations in GPU memory, and what the layers of
// a replica share.
#pragma once

#include <cublas_v2.h>
#include <cudnn.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/device/cuda_native.hpp"
#include "models/backend.hpp"

namespace models::cudnn {

inline void check(cudaError_t status, const std::string& doing) { harness::check_cuda(status, doing); }
inline void check(cudnnStatus_t status, std::string_view doing) {
  if (status != CUDNN_STATUS_SUCCESS) harness::fail_on_gpu(doing, std::string("cuDNN: ") + cudnnGetErrorString(status));
}
inline void check(cublasStatus_t status, std::string_view doing) {
  if (status != CUBLAS_STATUS_SUCCESS) {
    harness::fail_on_gpu(doing, std::string("cuBLAS: ") + cublasGetStatusString(status));
  }
}

inline constexpr float one = 1, none = 0;  // what a result is multiplied by, and what was there before

// A descriptor of cuDNN's, or a library's handle.
template <typename Handle, auto create, auto destroy>
class Owned {
 public:
  Owned() { check(create(&handle_), "making a handle"); }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  ~Owned() { destroy(handle_); }
  Handle get() const { return handle_; }

 private:
  Handle handle_ = nullptr;
};
using TensorDescriptor = Owned<cudnnTensorDescriptor_t, cudnnCreateTensorDescriptor, cudnnDestroyTensorDescriptor>;
using FilterDescriptor = Owned<cudnnFilterDescriptor_t, cudnnCreateFilterDescriptor, cudnnDestroyFilterDescriptor>;
using ConvolutionDescriptor =
    Owned<cudnnConvolutionDescriptor_t, cudnnCreateConvolutionDescriptor, cudnnDestroyConvolutionDescriptor>;
using PoolingDescriptor = Owned<cudnnPoolingDescriptor_t, cudnnCreatePoolingDescriptor, cudnnDestroyPoolingDescriptor>;
using ActivationDescriptor =
    Owned<cudnnActivationDescriptor_t, cudnnCreateActivationDescriptor, cudnnDestroyActivationDescriptor>;

// What the layers of a replica share. The workspace is one for all, since they run one after the other.
struct Library {
  explicit Library(const Workplace& place) : workplace(place), stream(on_its_gpu(place.stream)) {
    check(cudnnSetStream(dnn.get(), stream), "giving cuDNN a stream");
    check(cublasSetStream(blas.get(), stream), "giving cuBLAS a stream");
  }
  // Of what is issued to the GPU: a failure names it.
  template <typename Status>
  void check(Status status, const char* doing) const {
    if (status != Status{}) cudnn::check(status, workplace.device.name() + ": " + doing);
  }
  void reserve(std::size_t bytes) {
    if (bytes > workspace.bytes()) workspace = workplace.stream.device().allocate(bytes);
  }

  // For kernels of our own: they run on the current GPU.
  void use_gpu() const { harness::use_gpu(harness::gpu_of(workplace.stream.device())); }

  // The handles that are made next belong to the current GPU.
  static cudaStream_t on_its_gpu(harness::Stream& stream) {
    harness::use_gpu(harness::gpu_of(stream.device()));
    return harness::native_stream(stream);
  }

  Workplace workplace;
  cudaStream_t stream;
  Owned<cudnnHandle_t, cudnnCreate, cudnnDestroy> dnn;
  Owned<cublasHandle_t, cublasCreate, cublasDestroy> blas;
  harness::Buffer workspace;
};

struct Values : Tensor {
  // In memory that is there.
  Values(const Shape& of_one_image, float* values, float* gradients)
      : Tensor(of_one_image), value(values), gradient(gradients) {}
  // With memory for gradients, and for values unless those are somewhere already.
  Values(Library& library, const Shape& of_one_image, float* values = nullptr) : Tensor(of_one_image), value(values) {
    const std::size_t bytes = library.workplace.capacity * shape.size() * sizeof(float);
    const auto allocate = [&] {
      memory.push_back(library.workplace.stream.device().allocate(bytes));
      return reinterpret_cast<float*>(memory.back().data());
    };
    if (!value) value = allocate();
    gradient = allocate();
  }
  Extent extent() const override { return {value, gradient, memory.empty() ? 0 : memory.back().bytes()}; }
  // Of the first `images`.
  cudnnTensorDescriptor_t described(int images) const {
    check(cudnnSetTensor4dDescriptor(descriptor.get(), CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, images, shape.channels,
                                     shape.height, shape.width),
          "describing a tensor");
    return descriptor.get();
  }

  float* value = nullptr;
  float* gradient = nullptr;  // null for the images that are loaded
  std::vector<harness::Buffer> memory;
  TensorDescriptor descriptor;
};
using ValuesPointer = std::shared_ptr<Values>;

// A layer from `in` to `out`, on the library's stream.
class GpuLayer : public Layer {
 public:
  GpuLayer(Library& library, ValuesPointer in, const ValuesPointer& out)
      : Layer(out), library_(library), in_(std::move(in)), out_(out) {}

 protected:
  Library& library_;
  const ValuesPointer in_, out_;
};

// With a bias for each channel of what it puts out.
class Weighted : public GpuLayer {
 public:
  Weighted(Library& library, const ValuesPointer& in, const ValuesPointer& out, const Weights& weights)
      : GpuLayer(library, in, out), weights_(weights) {
    check(cudnnSetTensor4dDescriptor(bias_.get(), CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, out->shape.channels, 1, 1),
          "describing a bias");
  }

 protected:
  void add_bias(int images) {
    library_.check(cudnnAddTensor(library_.dnn.get(), &one, bias_.get(), weights_.bias, &one, out_->described(images),
                                  out_->value),
                   "adding a bias");
  }
  void sum_bias_gradient(int images) {
    library_.check(cudnnConvolutionBackwardBias(library_.dnn.get(), &one, out_->described(images), out_->gradient,
                                                &none, bias_.get(), weights_.bias_gradient),
                   "summing the gradient of a bias");
  }

  const Weights weights_;

 private:
  TensorDescriptor bias_;
};

}  // namespace models::cudnn
