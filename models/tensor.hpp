// SPDX-License-Identifier: Apache-2.0
// What layers pass to each other: the activations of a batch and the gradient of the loss with respect to them, and
// the place of a layer's parameters in the arenas. Plain views; the model owns the memory.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace models {

// Activations in memory order image, channel, row, column.
struct Tensor {
  int channels = 1, height = 1, width = 1;
  float* value = nullptr;
  float* gradient = nullptr;  // null where nobody needs it

  int pixels() const { return height * width; }
  std::size_t size() const { return static_cast<std::size_t>(channels) * height * width; }  // elements of one image
};

// A parameter of a layer, in the order of PyTorch's state_dict.
struct Parameter {
  std::string name;
  std::vector<int> shape;
  int fan_in = 0;  // of its layer
  bool bias = false;
  std::size_t count = 0;             // elements
  std::size_t offset = 0;            // in the arenas of parameters and gradients, which are laid out alike
  std::size_t reference_offset = 0;  // elements of all parameters before it in state_dict order
};

// Where a layer finds its weight and bias, and leaves their gradients.
struct Weights {
  const float* weight = nullptr;
  const float* bias = nullptr;
  float* weight_gradient = nullptr;
  float* bias_gradient = nullptr;
};

// A run of elements of an arena.
struct Slice {
  std::size_t offset = 0, count = 0;
  friend bool operator==(const Slice&, const Slice&) = default;
};

}  // namespace models
