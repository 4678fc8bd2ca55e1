// SPDX-License-Identifier: Apache-2.0
// Who computes the layers. A Backend belongs to one replica: it makes Layers one after the other, each reading the
// tensor that an earlier one put out, and is free to choose the memory layout of what passes between them. Everything
// here is called on the worker of the replica's stream, since libraries keep state a thread; for a GPU, where a call
// only issues work to the stream, by the thread that drives the replica.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "harness/device/device.hpp"
#include "models/tensor.hpp"

namespace models {

// Does such work in the stream's order: on its worker, or, for a GPU, at once.
void issue(harness::Stream& stream, std::function<void()> work);

class Layer {
 public:
  explicit Layer(TensorPointer output) : output_(std::move(output)) {}
  virtual ~Layer() = default;
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;

  // For the first `images` of the batch: at least one, at most the capacity.
  virtual void forward(int images) = 0;
  // Forward as after training: batch norm takes its running statistics, and leaves them alone.
  virtual void evaluate(int images) { forward(images); }
  // Overwrites the gradients of its input (where it has one) and of its parameters.
  virtual void backward(int images) = 0;
  const TensorPointer& output() const { return output_; }

 private:
  TensorPointer output_;
};

using LayerPointer = std::unique_ptr<Layer>;

// Of one forward pass over a shard.
struct Outcome {
  double loss = 0;  // cross entropy, summed over the images
  int correct = 0;  // images whose largest logit is that of their label
};

// Stochastic gradient descent as PyTorch's SGD has it. With g the gradient of the mean loss, p a parameter and v its
// momentum, which begins as zero: g += weight_decay * p; v = momentum * v + g; p -= lr * v.
struct Sgd {
  double lr = 0.1;
  std::size_t images = 1;  // of the global batch, over which the gradients are sums
  double momentum = 0;
  double weight_decay = 0;
};

// `count` parameters that a step changes. Without memory for momentum there is none.
struct Trained {
  float* parameters = nullptr;
  const float* gradients = nullptr;
  float* momentum = nullptr;
  std::size_t count = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;
  // What comes from outside, in memory order [image][channel][row][column]: the batch, for whose gradient nobody asks,
  // or what another device's outlet put out, with memory for its gradient.
  virtual TensorPointer input(const Shape& shape, float* values, float* gradients = nullptr) = 0;
  // Weight [channels][in.channels][kernel][kernel].
  virtual LayerPointer convolution(const TensorPointer& in, int channels, const Window&, const Weights&) = 0;
  // Each channel less its mean over images and pixels, over its standard deviation, then scaled and shifted: Ioffe and
  // Szegedy, "Batch Normalization" (2015). The constants are PyTorch's: 1e-5 is added to the variance; a tenth of the
  // running statistics, whose variance is the unbiased one, is replaced in every forward pass. With `relu` one follows.
  virtual LayerPointer batch_norm(const TensorPointer& in, bool relu, const Weights&) = 0;
  // In place, the output is the input; so whoever put that out cannot ask for its own values afterwards. The derivative
  // at exactly zero is zero.
  virtual LayerPointer relu(const TensorPointer& in) = 0;
  // The same values for a second reader, with a gradient of its own. Backward, it adds that to the gradient of `in`: so
  // it is made before the first reader, whose backward runs before its own.
  virtual LayerPointer branch(const TensorPointer& in) = 0;
  // relu(main + shortcut), of equal shapes. In place of `main`, with the same consequence as for relu.
  virtual LayerPointer residual_sum(const TensorPointer& main, const TensorPointer& shortcut) = 0;
  // A copy of the channels of a slice, in the memory order of `input`, for a share of a layer or for another device.
  // Backward, the other channels get a gradient of zero.
  virtual LayerPointer outlet(const TensorPointer& in, Slice channels) = 0;
  // Windows of side x side in steps of `side`; rows and columns that fill no window are left out.
  virtual LayerPointer average_pool(const TensorPointer& in, int side) = 0;
  // Weight [features][in.channels * in.height * in.width].
  virtual LayerPointer linear(const TensorPointer& in, int features, const Weights&) = 0;
  // Softmax and cross entropy against `labels`, one an image. The loss is the output: there is no tensor.
  virtual LayerPointer cross_entropy(const TensorPointer& in, const std::uint8_t* labels, Outcome& outcome) = 0;

  // What is done with the arenas, where an outcome is kept. By default all of it is in host memory.
  virtual void step(const Trained& what, const Sgd& how);
  virtual void clear(float* values, std::size_t count);
  virtual void copy(const float* from, float* to, std::size_t count);
  virtual void add(const float* from, float* into, std::size_t count);
  virtual std::shared_ptr<Outcome> make_outcome() { return std::make_shared<Outcome>(); }
};

// How it computes.
enum class Math {
  f32,
  winograd,  // multiplies less and rounds more: Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks"
             // (2015); of kernels of 3x3 in steps of 1, the others stay direct
  tf32,      // factors of convolutions and linear layers have 10 bits of mantissa: NVIDIA's TensorFloat-32
  bf16       // these layers read and put out bfloat16; parameters, and all other layers, are f32
};

// "f32". parse_math throws harness::UsageError for a name of none.
std::string_view name(Math math);
Math parse_math(std::string_view name);

// Throws harness::UsageError for an arithmetic that `who` has not.
void require_math(Math asked, std::initializer_list<Math> has, std::string_view who);

// What a backend computes with: a stream, memory of its device for batches of up to `capacity` images, and `threads`.
struct Workplace {
  harness::Stream& stream;
  int capacity = 1;
  int threads = 1;
  Math math = Math::f32;
  harness::Device& device = stream.device();
};

struct BackendRow {
  std::string_view name;
  std::string_view summary;
  // Null when this build lacks it. Throws harness::UsageError for a math that the backend has not.
  std::unique_ptr<Backend> (*make)(const Workplace&);
  std::string_view lacks = {};  // then, why
  bool on_gpu = false;          // computes on GPUs, and on nothing else
};

// The fastest first.
std::span<const BackendRow> backends();

// The first that this build has for CPU devices, and for the device's kind.
std::string_view default_backend();
std::string_view default_backend(const harness::Device& device);

// Throws harness::UsageError for a name that the table lacks, and for a backend that this build lacks.
const BackendRow& find_backend(std::string_view name);

std::unique_ptr<Backend> make_plain_backend(const Workplace& workplace);
std::unique_ptr<Backend> make_onednn_backend(const Workplace& workplace);
std::unique_ptr<Backend> make_cudnn_backend(const Workplace& workplace);

}  // namespace models
