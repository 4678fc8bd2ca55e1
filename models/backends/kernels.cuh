// SPDX-License-Identifier: Apache-2.0
// The bodies of this floor's kernels; tests compile them for the host (see harness/device/kernels.cuh).
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

namespace models::kernels {

// A thread an image.
__global__ void loss(const float* logits, const std::uint8_t* labels, double* losses, int* hits, int images,
                     int classes) {
  const int image = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (image >= images) return;
  const float* own = logits + static_cast<std::size_t>(image) * classes;
  int largest = 0;
  for (int i = 1; i < classes; ++i) largest = own[i] > own[largest] ? i : largest;
  double sum = 0;
  for (int i = 0; i < classes; ++i) sum += exp(double{own[i]} - own[largest]);
  losses[image] = log(sum) + own[largest] - own[labels[image]];
  hits[image] = largest == labels[image] ? 1 : 0;
}

__global__ void loss_gradient(const float* logits, const std::uint8_t* labels, float* gradient, int images,
                              int classes) {
  const int image = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (image >= images) return;
  const std::size_t first = static_cast<std::size_t>(image) * classes;
  float largest = logits[first];
  for (int i = 1; i < classes; ++i) largest = logits[first + i] > largest ? logits[first + i] : largest;
  double sum = 0;
  for (int i = 0; i < classes; ++i) sum += exp(double{logits[first + i]} - largest);
  for (int i = 0; i < classes; ++i) {
    const double probability = exp(double{logits[first + i]} - largest) / sum;
    gradient[first + i] = static_cast<float>(probability - (i == labels[image] ? 1 : 0));
  }
}

// One thread: so the order of the sum is that of the images.
__global__ void totals(const double* losses, const int* hits, double* loss_sum, int* correct, int images) {
  double sum = 0;
  int count = 0;
  for (int image = 0; image < images; ++image) {
    sum += losses[image];
    count += hits[image];
  }
  *loss_sum = sum;
  *correct = count;
}

__global__ void add_and_relu(float* main, const float* shortcut, std::size_t count) {
  const std::size_t stride = std::size_t(gridDim.x) * blockDim.x;
  for (std::size_t i = std::size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += stride) {
    const float sum = main[i] + shortcut[i];
    main[i] = sum < 0 ? 0 : sum;  // a NaN stays one
  }
}

__global__ void relu_gradients(const float* sum, float* main_gradient, float* shortcut_gradient, std::size_t count) {
  const std::size_t stride = std::size_t(gridDim.x) * blockDim.x;
  for (std::size_t i = std::size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += stride) {
    shortcut_gradient[i] = main_gradient[i] = sum[i] > 0 ? main_gradient[i] : 0;
  }
}

__global__ void step(float* parameters, const float* gradients, std::size_t count, float rate) {
  const std::size_t stride = std::size_t(gridDim.x) * blockDim.x;
  for (std::size_t i = std::size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += stride) {
    parameters[i] -= rate * gradients[i];
  }
}

__global__ void step_with_momentum(float* parameters, const float* gradients, float* momentum, std::size_t count,
                                   float lr, float part, float kept, float decay) {
  const std::size_t stride = std::size_t(gridDim.x) * blockDim.x;
  for (std::size_t i = std::size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += stride) {
    float change = gradients[i] * part + decay * parameters[i];
    if (momentum) change = momentum[i] = kept * momentum[i] + change;
    parameters[i] -= lr * change;
  }
}

}  // namespace models::kernels
