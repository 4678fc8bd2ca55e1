// SPDX-License-Identifier: Apache-2.0
// What layers pass to each other: a Tensor is the activations of a batch together with the gradient of the loss with
// respect to them. Which memory they lie in, and in which order, is the affair of the backend that made it. Parameters
// are no tensors: they lie in two arenas that the model owns, in plain row-major order.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace models {

// Of one image.
struct Shape {
  int channels = 1, height = 1, width = 1;

  int pixels() const { return height * width; }
  std::size_t size() const { return static_cast<std::size_t>(channels) * height * width; }
};

struct Tensor {
  explicit Tensor(const Shape& of_one_image) : shape(of_one_image) {}
  virtual ~Tensor() = default;
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;

  const Shape shape;
};

using TensorPointer = std::shared_ptr<Tensor>;

// A parameter of a layer, in the order of PyTorch's state_dict.
struct Parameter {
  std::string name;
  std::vector<int> shape;
  int layer = 0;  // index in the model
  int fan_in = 0;
  bool bias = false;
  std::size_t count = 0;             // elements
  std::size_t offset = 0;            // in the arenas of parameters and gradients, which are laid out alike
  std::size_t reference_offset = 0;  // elements of all parameters before it in state_dict order
};

// Where a layer finds its weight and bias, and leaves their gradients.
struct Weights {
  float* weight = nullptr;
  float* bias = nullptr;
  float* weight_gradient = nullptr;
  float* bias_gradient = nullptr;
};

// A run of elements of an arena.
struct Slice {
  std::size_t offset = 0, count = 0;
  friend bool operator==(const Slice&, const Slice&) = default;
};

}  // namespace models
