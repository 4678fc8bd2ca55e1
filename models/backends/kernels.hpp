// SPDX-License-Identifier: Apache-2.0
// What a GPU backend computes that no library offers as one call: the loss, the sum at the end of a residual block,
// and the step of SGD.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace models::kernels {

// As models/backends/cross_entropy.hpp does it, in double: loss and hit of each image, over logits [images][classes].
cudaError_t launch_loss(const float* logits, const std::uint8_t* labels, double* losses, int* hits, int images,
                        int classes, cudaStream_t stream);

// The gradient of the loss, summed over the images, with respect to the logits.
cudaError_t launch_loss_gradient(const float* logits, const std::uint8_t* labels, float* gradient, int images,
                                 int classes, cudaStream_t stream);

// Sums over the images, in their order.
cudaError_t launch_totals(const double* losses, const int* hits, double* loss, int* correct, int images,
                          cudaStream_t stream);

// main = relu(main + shortcut).
cudaError_t launch_add_and_relu(float* main, const float* shortcut, std::size_t count, cudaStream_t stream);

// Backward of that: the gradient of the sum, which lies where that of `main` does, is zero where the sum was not
// positive; so it is that of both.
cudaError_t launch_relu_gradients(const float* sum, float* main_gradient, float* shortcut_gradient, std::size_t count,
                                  cudaStream_t stream);

// parameters -= rate * gradients.
cudaError_t launch_step(float* parameters, const float* gradients, std::size_t count, float rate, cudaStream_t stream);

// With g = gradients * part + decay * parameters and, where there is memory for it, momentum = kept * momentum + g in
// the place of g: parameters -= lr * g.
struct Rates {
  float lr, part, kept, decay;
};
cudaError_t launch_step_with_momentum(float* parameters, const float* gradients, float* momentum, std::size_t count,
                                      const Rates& rates, cudaStream_t stream);

}  // namespace models::kernels
