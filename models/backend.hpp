// SPDX-License-Identifier: Apache-2.0
// Who computes the layers. A Backend makes Layers that are bound to their tensors and weights; a Layer runs on the
// worker of the model's stream, for as many images as it is told, up to the capacity that its tensors have.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "models/tensor.hpp"

namespace models {

class Layer {
 public:
  virtual ~Layer() = default;
  virtual void forward(int images) = 0;
  // Overwrites the gradients of its input (where wanted) and of its parameters.
  virtual void backward(int images) = 0;
};

// Of one forward pass over a shard.
struct Outcome {
  double loss = 0;  // cross entropy, summed over the images
  int correct = 0;  // images whose largest logit is that of their label
};

class Backend {
 public:
  virtual ~Backend() = default;
  // Square kernels, stride 1, no padding: out = in - kernel + 1. Weight [out][in][kernel][kernel].
  virtual std::unique_ptr<Layer> convolution(const Tensor& in, const Tensor& out, const Weights&) const = 0;
  // The derivative at exactly zero is zero.
  virtual std::unique_ptr<Layer> relu(const Tensor& in, const Tensor& out) const = 0;
  // Windows of 2x2 in steps of 2; an odd last row or column is left out.
  virtual std::unique_ptr<Layer> average_pool(const Tensor& in, const Tensor& out) const = 0;
  // Weight [out][in].
  virtual std::unique_ptr<Layer> linear(const Tensor& in, const Tensor& out, const Weights&) const = 0;
  // Softmax and cross entropy against `labels`, one an image.
  virtual std::unique_ptr<Layer> cross_entropy(const Tensor& in, const std::uint8_t* labels,
                                               Outcome& outcome) const = 0;
};

struct BackendRow {
  std::string_view name;
  std::string_view summary;
  std::unique_ptr<Backend> (*make)();
};

std::span<const BackendRow> backends();

// Throws harness::UsageError for a name that the table lacks.
std::unique_ptr<Backend> make_backend(std::string_view name);

std::unique_ptr<Backend> make_plain_backend();

}  // namespace models
