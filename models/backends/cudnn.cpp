// SPDX-License-Identifier: Apache-2.0
// The layers on a GPU, by NVIDIA's libraries: cuDNN (https://docs.nvidia.com/deeplearning/cudnn/), and cuBLAS for the
// linear layers. All in f32, images in the order [image][channel][row][column]. Everything is issued to the replica's
// stream by the thread that calls. How a convolution is computed, and the memory for it, is settled when its layer is
// made; ways that give the same bits every time are preferred.
#include "models/backends/cudnn_layer.hpp"

#include <algorithm>
#include <array>
#include <new>
#include <optional>

#include "models/backends/kernels.hpp"

namespace models {

namespace {

using namespace cudnn;

class Convolution : public Weighted {
 public:
  Convolution(Library& library, const ValuesPointer& in, const ValuesPointer& out, const Window& window,
              const Weights& weights)
      : Weighted(library, in, out, weights) {
    check(cudnnSetFilter4dDescriptor(filter_.get(), CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, out->shape.channels,
                                     in->shape.channels, window.kernel, window.kernel),
          "describing weights");
    check(cudnnSetConvolution2dDescriptor(how_.get(), window.padding, window.padding, window.stride, window.stride, 1,
                                          1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
          "describing a convolution");
    check(cudnnSetConvolutionMathType(how_.get(), CUDNN_FMA_MATH), "asking for plain f32");
    const int images = library.workplace.capacity;
    const auto x = in->described(images), y = out->described(images);
    forward_ = choose<cudnnConvolutionFwdAlgoPerf_t>([&](int most, int* count, auto* found) {
      return cudnnGetConvolutionForwardAlgorithm_v7(library.dnn.get(), x, filter_.get(), how_.get(), y, most, count,
                                                    found);
    });
    weights_back_ = choose<cudnnConvolutionBwdFilterAlgoPerf_t>([&](int most, int* count, auto* found) {
      return cudnnGetConvolutionBackwardFilterAlgorithm_v7(library.dnn.get(), x, y, how_.get(), filter_.get(), most,
                                                           count, found);
    });
    if (!in->gradient) return;
    data_back_ = choose<cudnnConvolutionBwdDataAlgoPerf_t>([&](int most, int* count, auto* found) {
      return cudnnGetConvolutionBackwardDataAlgorithm_v7(library.dnn.get(), filter_.get(), y, how_.get(), x, most,
                                                         count, found);
    });
  }

  void forward(int images) override {
    library_.check(cudnnConvolutionForward(library_.dnn.get(), &one, in_->described(images), in_->value, filter_.get(),
                                           weights_.weight, how_.get(), forward_, library_.workspace.data(),
                                           library_.workspace.bytes(), &none, out_->described(images), out_->value),
                   "convolution");
    add_bias(images);
  }
  void backward(int images) override {
    const auto y = out_->described(images), x = in_->described(images);
    sum_bias_gradient(images);
    library_.check(
        cudnnConvolutionBackwardFilter(library_.dnn.get(), &one, x, in_->value, y, out_->gradient, how_.get(),
                                       weights_back_, library_.workspace.data(), library_.workspace.bytes(), &none,
                                       filter_.get(), weights_.weight_gradient),
        "convolution, gradient of the weights");
    if (!in_->gradient) return;
    library_.check(cudnnConvolutionBackwardData(library_.dnn.get(), &one, filter_.get(), weights_.weight, y,
                                                out_->gradient, how_.get(), data_back_, library_.workspace.data(),
                                                library_.workspace.bytes(), &none, x, in_->gradient),
                   "convolution, gradient of the input");
  }

 private:
  // The fastest by cuDNN's own guess among those that repeat themselves, else the fastest; its workspace is taken.
  template <typename Found, typename Ask>
  decltype(Found::algo) choose(const Ask& ask) {
    std::array<Found, 8> found{};
    int count = 0;
    library_.check(ask(static_cast<int>(found.size()), &count, found.data()), "choosing how to convolve");
    const auto end = found.begin() + count;
    const auto works = [](const Found& way) { return way.status == CUDNN_STATUS_SUCCESS; };
    auto best = std::find_if(found.begin(), end,
                             [&](const Found& way) { return works(way) && way.determinism == CUDNN_DETERMINISTIC; });
    if (best == end) best = std::find_if(found.begin(), end, works);
    if (best == end) throw harness::Error("cuDNN knows no way to do this convolution");
    library_.reserve(best->memory);
    return best->algo;
  }

  FilterDescriptor filter_;
  ConvolutionDescriptor how_;
  cudnnConvolutionFwdAlgo_t forward_{};
  cudnnConvolutionBwdFilterAlgo_t weights_back_{};
  cudnnConvolutionBwdDataAlgo_t data_back_{};
};

// cuBLAS counts its matrices by columns, so our rows of images are its columns.
class Linear : public Weighted {
 public:
  using Weighted::Weighted;

  void forward(int images) override {
    library_.check(cublasSgemm(library_.blas.get(), CUBLAS_OP_T, CUBLAS_OP_N, outputs(), images, inputs(), &one,
                               weights_.weight, inputs(), in_->value, inputs(), &none, out_->value, outputs()),
                   "linear layer");
    add_bias(images);
  }
  void backward(int images) override {
    sum_bias_gradient(images);
    library_.check(
        cublasSgemm(library_.blas.get(), CUBLAS_OP_N, CUBLAS_OP_T, inputs(), outputs(), images, &one, in_->value,
                    inputs(), out_->gradient, outputs(), &none, weights_.weight_gradient, inputs()),
        "linear layer, gradient of the weights");
    if (!in_->gradient) return;
    library_.check(cublasSgemm(library_.blas.get(), CUBLAS_OP_N, CUBLAS_OP_N, inputs(), images, outputs(), &one,
                               weights_.weight, inputs(), out_->gradient, outputs(), &none, in_->gradient, inputs()),
                   "linear layer, gradient of the input");
  }

 private:
  int inputs() const { return static_cast<int>(in_->shape.size()); }
  int outputs() const { return out_->shape.channels; }
};

// In place: its own output serves as the input of the derivative, both are positive at the same elements.
class Relu : public GpuLayer {
 public:
  Relu(Library& library, const ValuesPointer& in) : GpuLayer(library, in, in) {
    check(cudnnSetActivationDescriptor(how_.get(), CUDNN_ACTIVATION_RELU, CUDNN_PROPAGATE_NAN, 0), "describing a relu");
  }

  void forward(int images) override {
    const auto all = in_->described(images);
    library_.check(
        cudnnActivationForward(library_.dnn.get(), how_.get(), &one, all, in_->value, &none, all, in_->value), "relu");
  }
  void backward(int images) override {
    const auto all = in_->described(images);
    library_.check(cudnnActivationBackward(library_.dnn.get(), how_.get(), &one, all, in_->value, all, in_->gradient,
                                           all, in_->value, &none, all, in_->gradient),
                   "relu, gradient");
  }

 private:
  ActivationDescriptor how_;
};

class AveragePool : public GpuLayer {
 public:
  AveragePool(Library& library, const ValuesPointer& in, const ValuesPointer& out, int side)
      : GpuLayer(library, in, out) {
    check(cudnnSetPooling2dDescriptor(how_.get(), CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING, CUDNN_PROPAGATE_NAN,
                                      side, side, 0, 0, side, side),
          "describing a pooling");
  }

  void forward(int images) override {
    library_.check(cudnnPoolingForward(library_.dnn.get(), how_.get(), &one, in_->described(images), in_->value, &none,
                                       out_->described(images), out_->value),
                   "pooling");
  }
  void backward(int images) override {
    const auto x = in_->described(images), y = out_->described(images);
    library_.check(cudnnPoolingBackward(library_.dnn.get(), how_.get(), &one, y, out_->value, y, out_->gradient, x,
                                        in_->value, &none, x, in_->gradient),
                   "pooling, gradient");
  }

 private:
  PoolingDescriptor how_;
};

// Over images and pixels. Backward finds mean and deviation of the batch where forward left them.
class BatchNorm : public GpuLayer {
 public:
  BatchNorm(Library& library, const ValuesPointer& in, const ValuesPointer& out, bool relu, const Weights& weights)
      : GpuLayer(library, in, out), weights_(weights) {
    if (relu) relu_.emplace(library, out);
    const int channels = in->shape.channels;
    check(cudnnSetTensor4dDescriptor(channels_.get(), CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, channels, 1, 1),
          "describing what batch norm knows of a channel");
    for (harness::Buffer* each : {&mean_, &deviation_}) {
      *each = library.workplace.stream.device().allocate(channels * sizeof(float));
    }
  }

  void forward(int images) override {
    library_.check(cudnnBatchNormalizationForwardTraining(
                       library_.dnn.get(), over, &one, &none, in_->described(images), in_->value,
                       out_->described(images), out_->value, channels_.get(), weights_.weight, weights_.bias, replaced,
                       weights_.running_mean, weights_.running_variance, epsilon, mean_.data(), deviation_.data()),
                   "batch norm");
    if (relu_) relu_->forward(images);
  }
  void evaluate(int images) override {
    library_.check(cudnnBatchNormalizationForwardInference(library_.dnn.get(), over, &one, &none,
                                                           in_->described(images), in_->value, out_->described(images),
                                                           out_->value, channels_.get(), weights_.weight, weights_.bias,
                                                           weights_.running_mean, weights_.running_variance, epsilon),
                   "batch norm by its running statistics");
    if (relu_) relu_->forward(images);
  }
  void backward(int images) override {
    if (relu_) relu_->backward(images);
    library_.check(
        cudnnBatchNormalizationBackward(library_.dnn.get(), over, &one, &none, &one, &none, in_->described(images),
                                        in_->value, out_->described(images), out_->gradient, in_->described(images),
                                        in_->gradient, channels_.get(), weights_.weight, weights_.weight_gradient,
                                        weights_.bias_gradient, epsilon, mean_.data(), deviation_.data()),
        "batch norm, gradient");
  }

 private:
  static constexpr cudnnBatchNormMode_t over = CUDNN_BATCHNORM_SPATIAL;
  static constexpr double replaced = 0.1, epsilon = 1e-5;

  const Weights weights_;
  std::optional<Relu> relu_ = {};
  TensorDescriptor channels_;
  harness::Buffer mean_, deviation_;  // of the batch; the latter is cuDNN's inverse of it
};

class Branch : public GpuLayer {
 public:
  using GpuLayer::GpuLayer;

  void forward(int) override {}
  void backward(int images) override {
    library_.workplace.stream.reduce(out_->gradient, in_->gradient, images * in_->shape.size(),
                                     {harness::Dtype::f32, harness::Op::sum, 1});
  }
};

class ResidualSum : public GpuLayer {
 public:
  ResidualSum(Library& library, const ValuesPointer& main, ValuesPointer shortcut)
      : GpuLayer(library, main, main), shortcut_(std::move(shortcut)) {}

  void forward(int images) override {
    library_.use_gpu();
    library_.check(
        kernels::launch_add_and_relu(in_->value, shortcut_->value, images * in_->shape.size(), library_.stream),
        "residual sum");
  }
  void backward(int images) override {
    library_.use_gpu();
    library_.check(kernels::launch_relu_gradients(in_->value, in_->gradient, shortcut_->gradient,
                                                  images * in_->shape.size(), library_.stream),
                   "residual sum, gradients");
  }

 private:
  const ValuesPointer shortcut_;
};

// In memory a run of channels is a run of columns: a row is an image.
class Outlet : public GpuLayer {
 public:
  Outlet(Library& library, const ValuesPointer& in, const ValuesPointer& out, Slice channels)
      : GpuLayer(library, in, out), before_(channels.offset * in->shape.pixels()) {}

  void forward(int images) override { copy(out_->value, *out_, in_->value + before_, *in_, images); }
  void backward(int images) override {
    if (!in_->gradient) return;
    library_.use_gpu();
    library_.check(cudaMemsetAsync(in_->gradient, 0, images * bytes_of(*in_), library_.stream), "clearing");
    copy(in_->gradient + before_, *in_, out_->gradient, *out_, images);
  }

 private:
  static std::size_t bytes_of(const Values& row) { return row.shape.size() * sizeof(float); }
  void copy(float* to, const Values& to_row, const float* from, const Values& from_row, int images) {
    library_.use_gpu();
    library_.check(cudaMemcpy2DAsync(to, bytes_of(to_row), from, bytes_of(from_row), bytes_of(*out_), images,
                                     cudaMemcpyDeviceToDevice, library_.stream),
                   "copying channels");
  }

  const std::size_t before_;  // elements of an image
};

class CrossEntropy : public Layer {
 public:
  CrossEntropy(Library& library, ValuesPointer in, const std::uint8_t* labels, Outcome& outcome)
      : Layer(nullptr), library_(library), in_(std::move(in)), labels_(labels), outcome_(outcome) {
    harness::Device& device = library.workplace.stream.device();
    losses_ = device.allocate(library.workplace.capacity * sizeof(double));
    hits_ = device.allocate(library.workplace.capacity * sizeof(int));
    total_ = device.allocate(sizeof(Outcome));
  }

  void forward(int images) override {
    library_.use_gpu();
    auto* losses = reinterpret_cast<double*>(losses_.data());
    auto* hits = reinterpret_cast<int*>(hits_.data());
    auto* total = reinterpret_cast<Outcome*>(total_.data());
    library_.check(kernels::launch_loss(in_->value, labels_, losses, hits, images, classes(), library_.stream), "loss");
    library_.check(kernels::launch_totals(losses, hits, &total->loss, &total->correct, images, library_.stream),
                   "sum of the losses");
    library_.workplace.stream.copy(total, &outcome_, sizeof(Outcome));
  }
  void backward(int images) override {
    library_.use_gpu();
    library_.check(
        kernels::launch_loss_gradient(in_->value, labels_, in_->gradient, images, classes(), library_.stream),
        "gradient of the loss");
  }

 private:
  int classes() const { return static_cast<int>(in_->shape.size()); }

  Library& library_;
  const ValuesPointer in_;
  const std::uint8_t* labels_;
  Outcome& outcome_;
  harness::Buffer losses_, hits_, total_;
};

class Cudnn : public Backend {
 public:
  explicit Cudnn(const Workplace& workplace) : library_(workplace) {}

  TensorPointer input(const Shape& shape, float* values, float* gradients) override {
    return std::make_shared<Values>(shape, values, gradients);
  }
  LayerPointer convolution(const TensorPointer& in, int channels, const Window& window,
                           const Weights& weights) override {
    return std::make_unique<Convolution>(
        library_, values(in), make({channels, window.outputs(in->shape.height), window.outputs(in->shape.width)}),
        window, weights);
  }
  LayerPointer batch_norm(const TensorPointer& in, bool relu, const Weights& weights) override {
    return std::make_unique<BatchNorm>(library_, values(in), make(in->shape), relu, weights);
  }
  LayerPointer relu(const TensorPointer& in) override { return std::make_unique<Relu>(library_, values(in)); }
  LayerPointer branch(const TensorPointer& in) override {
    auto out = std::make_shared<Values>(library_, in->shape, values(in)->value);
    return std::make_unique<Branch>(library_, values(in), std::move(out));
  }
  LayerPointer residual_sum(const TensorPointer& main, const TensorPointer& shortcut) override {
    return std::make_unique<ResidualSum>(library_, values(main), values(shortcut));
  }
  LayerPointer outlet(const TensorPointer& in, Slice channels) override {
    return std::make_unique<Outlet>(
        library_, values(in), make({static_cast<int>(channels.count), in->shape.height, in->shape.width}), channels);
  }
  LayerPointer average_pool(const TensorPointer& in, int side) override {
    return std::make_unique<AveragePool>(
        library_, values(in), make({in->shape.channels, in->shape.height / side, in->shape.width / side}), side);
  }
  LayerPointer linear(const TensorPointer& in, int features, const Weights& weights) override {
    return std::make_unique<Linear>(library_, values(in), make({features, 1, 1}), weights);
  }
  LayerPointer cross_entropy(const TensorPointer& in, const std::uint8_t* labels, Outcome& outcome) override {
    return std::make_unique<CrossEntropy>(library_, values(in), labels, outcome);
  }

  void step(const Trained& what, const Sgd& how) override {
    library_.use_gpu();
    const auto images = static_cast<double>(how.images);
    const cudaError_t status = how.momentum == 0 && how.weight_decay == 0
                                   ? kernels::launch_step(what.parameters, what.gradients, what.count,
                                                          static_cast<float>(how.lr / images), library_.stream)
                                   : kernels::launch_step_with_momentum(
                                         what.parameters, what.gradients, what.momentum, what.count,
                                         {static_cast<float>(how.lr), static_cast<float>(1 / images),
                                          static_cast<float>(how.momentum), static_cast<float>(how.weight_decay)},
                                         library_.stream);
    library_.check(status, "step");
  }
  void clear(float* values, std::size_t count) override {
    library_.check(cudaMemsetAsync(values, 0, count * sizeof(float), library_.stream), "clearing");
  }
  void copy(const float* from, float* to, std::size_t count) override {
    library_.workplace.stream.copy(from, to, count * sizeof(float));
  }
  void add(const float* from, float* into, std::size_t count) override {
    library_.workplace.stream.reduce(from, into, count, {harness::Dtype::f32, harness::Op::sum, 1});
  }
  // Pinned, so that the outcome arrives while the host goes on issuing.
  std::shared_ptr<Outcome> make_outcome() override {
    std::shared_ptr<void> memory = harness::allocate_pinned(sizeof(Outcome));
    auto* outcome = new (memory.get()) Outcome;
    return {std::move(memory), outcome};
  }

 private:
  static ValuesPointer values(const TensorPointer& tensor) { return std::static_pointer_cast<Values>(tensor); }
  ValuesPointer make(const Shape& shape) { return std::make_shared<Values>(library_, shape); }

  Library library_;
};

}  // namespace

std::unique_ptr<Backend> make_cudnn_backend(const Workplace& workplace) {
  if (workplace.math != Math::f32)
    throw harness::UsageError("--math=winograd: the cudnn backend computes in f32 alone");
  return std::make_unique<Cudnn>(workplace);
}

}  // namespace models
