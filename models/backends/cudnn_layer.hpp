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
#include "harness/device/narrow.hpp"
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
    check(cudnnSetStream(dnn_.get(), stream), "giving cuDNN a stream");
    check(cublasSetStream(blas_.get(), stream), "giving cuBLAS a stream");
  }
  // Of what is issued to the GPU: a failure names it.
  template <typename Status>
  void check(Status status, const char* doing) const {
    if (status != Status{}) cudnn::check(status, workplace.device.name() + ": " + doing);
  }
  void reserve(std::size_t bytes) {
    if (bytes > workspace.bytes()) workspace = workplace.stream.device().allocate(bytes);
  }

  // The handles, and kernels of our own, work on the current GPU.
  cudnnHandle_t dnn() const {
    use_gpu();
    return dnn_.get();
  }
  cublasHandle_t blas() const {
    use_gpu();
    return blas_.get();
  }
  void use_gpu() const { harness::use_gpu(harness::gpu_of(workplace.stream.device())); }

  // Whether convolutions and linear layers are given bfloat16.
  bool halves() const { return workplace.math == Math::bf16; }
  cudnnDataType_t type() const { return halves() ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT; }

  Workplace workplace;
  cudaStream_t stream;
  harness::Buffer workspace;

 private:
  // The handles that are made next belong to the current GPU.
  static cudaStream_t on_its_gpu(harness::Stream& stream) {
    harness::use_gpu(harness::gpu_of(stream.device()));
    return harness::native_stream(stream);
  }

  Owned<cudnnHandle_t, cudnnCreate, cudnnDestroy> dnn_;
  Owned<cublasHandle_t, cublasCreate, cublasDestroy> blas_;
};

// Floats as convolutions and linear layers are given them: themselves, or a copy in bfloat16.
class Operand {
 public:
  Operand(const Library& library, std::size_t most) : stream_(library.workplace.stream) {
    if (library.halves()) copy_ = stream_.device().allocate(most * sizeof(harness::Bfloat16));
  }

  const void* read(const float* values, std::size_t count) const {
    if (!is_copy()) return values;
    harness::narrow(stream_, values, halves(), count);
    return halves();
  }
  // What was read before, or room for what is written.
  void* at(float* values) const { return is_copy() ? static_cast<void*>(halves()) : values; }
  const void* at(const float* values) const { return is_copy() ? static_cast<const void*>(halves()) : values; }
  void write_back(float* values, std::size_t count) const {
    if (is_copy()) harness::widen(stream_, halves(), values, count);
  }

 private:
  bool is_copy() const { return copy_.bytes() > 0; }
  harness::Bfloat16* halves() const { return reinterpret_cast<harness::Bfloat16*>(copy_.data()); }

  harness::Stream& stream_;
  harness::Buffer copy_;
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
  cudnnTensorDescriptor_t described(int images, cudnnDataType_t type = CUDNN_DATA_FLOAT) const {
    check(cudnnSetTensor4dDescriptor(descriptor.get(), CUDNN_TENSOR_NCHW, type, images, shape.channels, shape.height,
                                     shape.width),
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

// With weights and a bias for each channel of what it puts out.
class Weighted : public GpuLayer {
 public:
  Weighted(Library& library, const ValuesPointer& in, const ValuesPointer& out, const Weights& weights,
           std::size_t weight_count)
      : GpuLayer(library, in, out),
        weights_(weights),
        weight_count_(weight_count),
        x_(library, x_count(library.workplace.capacity)),
        w_(library, weight_count),
        y_(library, y_count(library.workplace.capacity)) {
    check(cudnnSetTensor4dDescriptor(bias_.get(), CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, out->shape.channels, 1, 1),
          "describing a bias");
  }

 protected:
  std::size_t x_count(int images) const { return images * in_->shape.size(); }
  std::size_t y_count(int images) const { return images * out_->shape.size(); }
  void add_bias(int images) {
    library_.check(
        cudnnAddTensor(library_.dnn(), &one, bias_.get(), weights_.bias, &one, out_->described(images), out_->value),
        "adding a bias");
  }
  void sum_bias_gradient(int images) {
    library_.check(cudnnConvolutionBackwardBias(library_.dnn(), &one, out_->described(images), out_->gradient, &none,
                                                bias_.get(), weights_.bias_gradient),
                   "summing the gradient of a bias");
  }

  const Weights weights_;
  const std::size_t weight_count_;
  const Operand x_, w_, y_;  // what it reads, its weights, and what it puts out or the gradient of that

 private:
  TensorDescriptor bias_;
};

}  // namespace models::cudnn
