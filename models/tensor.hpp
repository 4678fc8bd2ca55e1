// SPDX-License-Identifier: Apache-2.0
// What layers pass to each other: a Tensor is the activations of a batch together with the gradient of the loss with
// respect to them. Which memory they lie in, and in which order, is the affair of the backend that made it. Parameters
// are no tensors: they lie in two arenas that the model owns, in plain row-major order.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

namespace models {

// Of one image.
struct Shape {
  int channels = 1, height = 1, width = 1;

  int pixels() const { return height * width; }
  std::size_t size() const { return static_cast<std::size_t>(channels) * height * width; }
};

// Where a tensor lies, for whoever copies it to its like in another replica. Flat tensors are plain rows
// [image][feature].
struct Extent {
  float* values = nullptr;
  float* gradients = nullptr;  // null where nobody needs them
  std::size_t bytes = 0;       // of either, for the whole capacity
};

struct Tensor {
  explicit Tensor(const Shape& of_one_image) : shape(of_one_image) {}
  virtual ~Tensor() = default;
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;
  virtual Extent extent() const { return {}; }

  const Shape shape;
};

using TensorPointer = std::shared_ptr<Tensor>;

// What a parameter is to its layer: it decides how it is drawn.
enum class Role { weight, bias, scale, shift };  // batch norm has the last two, which begin as ones and zeros

// Which elements of a matrix are here, where devices share it out: rows of `row` elements out of rows of `whole_row`,
// the first of them beginning at `first`.
struct Cut {
  std::size_t first = 0, row = 1, whole_row = 1;

  // Where the i-th of the elements here is in all of it.
  std::size_t in_whole(std::size_t i) const { return first + i / row * whole_row + i % row; }
};

// Of a tensor of this shape.
inline std::size_t elements_of(const std::vector<int>& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::size_t{1}, std::multiplies<>());
}

// A parameter of a layer, in the order of PyTorch's state_dict.
struct Parameter {
  std::string name;
  std::vector<int> shape;  // of all of it
  int layer = 0;           // index in the model
  int fan_in = 0;          // of weights and biases
  Role role = Role::weight;
  std::size_t count = 0;             // elements that are here
  std::size_t offset = 0;            // in the arenas of parameters and gradients, which are laid out alike
  std::size_t reference_offset = 0;  // elements of all parameters before it in state_dict order
  Cut cut = {};
  bool whole = true;
};

// Running statistics of a batch norm, which training leaves for evaluation: no gradient, and never communicated.
struct Statistic {
  std::string name;  // as in PyTorch's state_dict
  int layer = 0;
  std::size_t count = 0;   // channels
  std::size_t offset = 0;  // in the arena of statistics
};

// Where a layer finds its weight and bias (batch norm: scale and shift) and its running statistics, and leaves their
// gradients.
struct Weights {
  float* weight = nullptr;
  float* bias = nullptr;
  float* weight_gradient = nullptr;
  float* bias_gradient = nullptr;
  float* running_mean = nullptr;      // of batch norm alone
  float* running_variance = nullptr;  // likewise
};

// The square window of a convolution: zeros of width `padding` stand around the image.
struct Window {
  int kernel = 1;
  int stride = 1;
  int padding = 0;

  int outputs(int side) const { return (side + 2 * padding - kernel) / stride + 1; }
};

// A run of elements of an arena.
struct Slice {
  std::size_t offset = 0, count = 0;
  friend bool operator==(const Slice&, const Slice&) = default;
};

// One of `of` parts of something in a row, in their order and of almost the same size.
struct Share {
  int index = 0, of = 1;
};
inline Slice slice_of(Share share, std::size_t elements) {
  const auto begin = [&](std::size_t part) {
    return elements / share.of * part + elements % share.of * part / share.of;
  };
  return {begin(share.index), begin(share.index + 1) - begin(share.index)};
}

}  // namespace models
