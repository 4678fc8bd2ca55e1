// SPDX-License-Identifier: Apache-2.0
// The layers on a GPU, by NVIDIA's libraries: cuDNN (https://docs.nvidia.com/deeplearning/cudnn/), and cuBLAS for the
// linear layers. Tensors are f32, images in the order [image][channel][row][column]. With bf16, convolutions and linear
// layers multiply copies in bfloat16 and add in f32, and parameters stay f32: Micikevicius et al., "Mixed Precision
// Training" (2018), where bfloat16 needs no scaling of the loss: Kalamkar et al., "A Study of BFLOAT16 for Deep
// Learning Training" (2019). Everything is issued to the replica's stream by the thread that calls. How a convolution
// is computed, and the memory for it, is settled when its layer is made; ways that give the same bits every time are
// preferred.
#include "models/backends/cudnn_layer.hpp"

#include <algorithm>
#include <array>
#include <new>
#include <optional>
#include <string>
#include <type_traits>

#include "harness/options.hpp"
#include "models/backends/kernels.hpp"

namespace models {

namespace {

using namespace cudnn;

class Convolution : public Weighted {
 public:
  Convolution(Library& library, const ValuesPointer& in, const ValuesPointer& out, const Window& window,
              const Weights& weights)
      : Weighted(library, in, out, weights,
                 std::size_t(out->shape.channels) * in->shape.channels * window.kernel * window.kernel),
        window_(window),
        weight_gradient_(library, weight_count_) {
    check(cudnnSetFilter4dDescriptor(filter_.get(), library.type(), CUDNN_TENSOR_NCHW, out->shape.channels,
                                     in->shape.channels, window.kernel, window.kernel),
          "describing weights");
    const int images = library.workplace.capacity;
    const auto x = in->described(images, library.type()), y = out->described(images, library.type());
    choose(forward_, [&](auto how, auto... found) {
      return cudnnGetConvolutionForwardAlgorithm_v7(library.dnn(), x, filter_.get(), how, y, found...);
    });
    choose(weights_back_, [&](auto how, auto... found) {
      return cudnnGetConvolutionBackwardFilterAlgorithm_v7(library.dnn(), x, y, how, filter_.get(), found...);
    });
    if (!in->gradient) return;
    choose(data_back_, [&](auto how, auto... found) {
      return cudnnGetConvolutionBackwardDataAlgorithm_v7(library.dnn(), filter_.get(), y, how, x, found...);
    });
  }

  void forward(int images) override {
    const auto x = in_->described(images, library_.type()), y = out_->described(images, library_.type());
    library_.check(
        cudnnConvolutionForward(library_.dnn(), &one, x, x_.read(in_->value, x_count(images)), filter_.get(),
                                w_.read(weights_.weight, weight_count_), forward_.how.get(), forward_.algo,
                                library_.workspace.data(), library_.workspace.bytes(), &none, y, y_.at(out_->value)),
        "convolution");
    y_.write_back(out_->value, y_count(images));
    add_bias(images);
  }
  void backward(int images) override {
    sum_bias_gradient(images);
    const auto x = in_->described(images, library_.type()), y = out_->described(images, library_.type());
    const void* y_gradient = y_.read(out_->gradient, y_count(images));
    library_.check(cudnnConvolutionBackwardFilter(library_.dnn(), &one, x, x_.at(in_->value), y, y_gradient,
                                                  weights_back_.how.get(), weights_back_.algo,
                                                  library_.workspace.data(), library_.workspace.bytes(), &none,
                                                  filter_.get(), weight_gradient_.at(weights_.weight_gradient)),
                   "convolution, gradient of the weights");
    weight_gradient_.write_back(weights_.weight_gradient, weight_count_);
    if (!in_->gradient) return;
    // Nobody needs what was read any more: its copy makes room for the gradient.
    library_.check(
        cudnnConvolutionBackwardData(library_.dnn(), &one, filter_.get(), w_.at(weights_.weight), y, y_gradient,
                                     data_back_.how.get(), data_back_.algo, library_.workspace.data(),
                                     library_.workspace.bytes(), &none, x, x_.at(in_->gradient)),
        "convolution, gradient of the input");
    x_.write_back(in_->gradient, x_count(images));
  }

 private:
  template <typename Algorithm>
  struct Way {
    ConvolutionDescriptor how;
    Algorithm algo{};
  };

  // The fastest by cuDNN's own guess among those that repeat themselves, else the fastest; its workspace is taken.
  template <typename Algorithm, typename Ask>
  void choose(Way<Algorithm>& way, const Ask& ask) {
    check(cudnnSetConvolution2dDescriptor(way.how.get(), window_.padding, window_.padding, window_.stride,
                                          window_.stride, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
          "describing a convolution");
    const bool plain = library_.workplace.math == Math::f32;
    check(cudnnSetConvolutionMathType(way.how.get(), plain ? CUDNN_FMA_MATH : CUDNN_TENSOR_OP_MATH),
          "asking for an arithmetic");
    using Found =
        std::conditional_t<std::is_same_v<Algorithm, cudnnConvolutionFwdAlgo_t>, cudnnConvolutionFwdAlgoPerf_t,
                           std::conditional_t<std::is_same_v<Algorithm, cudnnConvolutionBwdFilterAlgo_t>,
                                              cudnnConvolutionBwdFilterAlgoPerf_t, cudnnConvolutionBwdDataAlgoPerf_t>>;
    std::array<Found, 8> found{};
    int count = 0;
    library_.check(ask(way.how.get(), static_cast<int>(found.size()), &count, found.data()),
                   "choosing how to convolve");
    const auto end = found.begin() + count;
    const auto works = [](const Found& one) { return one.status == CUDNN_STATUS_SUCCESS; };
    auto best = std::find_if(found.begin(), end,
                             [&](const Found& one) { return works(one) && one.determinism == CUDNN_DETERMINISTIC; });
    if (best == end) best = std::find_if(found.begin(), end, works);
    if (best == end) throw harness::Error("cuDNN knows no way to do this convolution");
    library_.reserve(best->memory);
    way.algo = best->algo;
    // Its workspace is for this arithmetic.
    if (!plain) check(cudnnSetConvolutionMathType(way.how.get(), best->mathType), "taking an arithmetic");
  }

  const Window window_;
  FilterDescriptor filter_;
  Way<cudnnConvolutionFwdAlgo_t> forward_;
  Way<cudnnConvolutionBwdFilterAlgo_t> weights_back_;
  Way<cudnnConvolutionBwdDataAlgo_t> data_back_;
  const Operand weight_gradient_;
};

// cuBLAS counts its matrices by columns, so our rows of images are its columns.
class Linear : public Weighted {
 public:
  Linear(Library& library, const ValuesPointer& in, const ValuesPointer& out, const Weights& weights)
      : Weighted(library, in, out, weights, in->shape.size() * out->shape.channels) {}

  void forward(int images) override {
    const Matrix w{w_.read(weights_.weight, weight_count_), inputs(), CUBLAS_OP_T};
    const Matrix x{x_.read(in_->value, x_count(images)), inputs()};
    multiply({outputs(), images, inputs()}, w, x, out_->value, "linear layer");
    add_bias(images);
  }
  void backward(int images) override {
    sum_bias_gradient(images);
    const void* y_gradient = y_.read(out_->gradient, y_count(images));
    multiply({inputs(), outputs(), images}, {x_.at(in_->value), inputs()}, {y_gradient, outputs(), CUBLAS_OP_T},
             weights_.weight_gradient, "linear layer, gradient of the weights");
    if (!in_->gradient) return;
    multiply({inputs(), images, outputs()}, {w_.at(weights_.weight), inputs()}, {y_gradient, outputs()}, in_->gradient,
             "linear layer, gradient of the input");
  }

 private:
  struct Matrix {
    const void* data;
    int rows;  // as it lies there
    cublasOperation_t turned = CUBLAS_OP_N;
  };
  struct Sizes {
    int rows, columns, inner;
  };
  // The product is of floats, whatever the factors are.
  void multiply(const Sizes& sizes, const Matrix& a, const Matrix& b, float* product, const char* doing) {
    const cudaDataType_t type = library_.halves() ? CUDA_R_16BF : CUDA_R_32F;
    const auto [m, n, k] = sizes;
    library_.check(
        cublasGemmEx(library_.blas(), a.turned, b.turned, m, n, k, &one, a.data, type, a.rows, b.data, type, b.rows,
                     &none, product, CUDA_R_32F, m,
                     library_.workplace.math == Math::tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
                     CUBLAS_GEMM_DEFAULT),
        doing);
  }

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
    library_.check(cudnnActivationForward(library_.dnn(), how_.get(), &one, all, in_->value, &none, all, in_->value),
                   "relu");
  }
  void backward(int images) override {
    const auto all = in_->described(images);
    library_.check(cudnnActivationBackward(library_.dnn(), how_.get(), &one, all, in_->value, all, in_->gradient, all,
                                           in_->value, &none, all, in_->gradient),
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
    library_.check(cudnnPoolingForward(library_.dnn(), how_.get(), &one, in_->described(images), in_->value, &none,
                                       out_->described(images), out_->value),
                   "pooling");
  }
  void backward(int images) override {
    const auto x = in_->described(images), y = out_->described(images);
    library_.check(cudnnPoolingBackward(library_.dnn(), how_.get(), &one, y, out_->value, y, out_->gradient, x,
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
                       library_.dnn(), over, &one, &none, in_->described(images), in_->value, out_->described(images),
                       out_->value, channels_.get(), weights_.weight, weights_.bias, replaced, weights_.running_mean,
                       weights_.running_variance, epsilon, mean_.data(), deviation_.data()),
                   "batch norm");
    if (relu_) relu_->forward(images);
  }
  void evaluate(int images) override {
    library_.check(cudnnBatchNormalizationForwardInference(library_.dnn(), over, &one, &none, in_->described(images),
                                                           in_->value, out_->described(images), out_->value,
                                                           channels_.get(), weights_.weight, weights_.bias,
                                                           weights_.running_mean, weights_.running_variance, epsilon),
                   "batch norm by its running statistics");
    if (relu_) relu_->forward(images);
  }
  void backward(int images) override {
    if (relu_) relu_->backward(images);
    library_.check(
        cudnnBatchNormalizationBackward(library_.dnn(), over, &one, &none, &one, &none, in_->described(images),
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
    library_.use_gpu();
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
  require_math(workplace.math, {Math::f32, Math::tf32, Math::bf16}, "the cudnn backend");
  if (workplace.math != Math::f32) {
    int generation = 0;
    check(cudaDeviceGetAttribute(&generation, cudaDevAttrComputeCapabilityMajor, harness::gpu_of(workplace.device)),
          workplace.device.name() + ": asking what it can do");
    const std::string needs = workplace.device.name() + " is of compute capability " + std::to_string(generation);
    if (generation < 8) throw harness::bad_value("math", name(workplace.math), needs + ", and 8 is needed");
  }
  return std::make_unique<Cudnn>(workplace);
}

}  // namespace models
