// SPDX-License-Identifier: Apache-2.0
#include "models/backends/kernels.hpp"

#include "models/backends/kernels.cuh"

namespace models::kernels {

namespace {

constexpr unsigned threads = 128;
constexpr std::size_t most_blocks = 4096;  // more than any GPU runs at once

unsigned blocks_for(std::size_t count) {
  const std::size_t wanted = (count + threads - 1) / threads;
  return static_cast<unsigned>(wanted < most_blocks ? wanted : most_blocks);
}

}  // namespace

cudaError_t launch_loss(const float* logits, const std::uint8_t* labels, double* losses, int* hits, int images,
                        int classes, cudaStream_t stream) {
  loss<<<blocks_for(images), threads, 0, stream>>>(logits, labels, losses, hits, images, classes);
  return cudaGetLastError();
}

cudaError_t launch_loss_gradient(const float* logits, const std::uint8_t* labels, float* gradient, int images,
                                 int classes, cudaStream_t stream) {
  loss_gradient<<<blocks_for(images), threads, 0, stream>>>(logits, labels, gradient, images, classes);
  return cudaGetLastError();
}

cudaError_t launch_totals(const double* losses, const int* hits, double* loss_sum, int* correct, int images,
                          cudaStream_t stream) {
  totals<<<1, 1, 0, stream>>>(losses, hits, loss_sum, correct, images);
  return cudaGetLastError();
}

cudaError_t launch_add_and_relu(float* main, const float* shortcut, std::size_t count, cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  add_and_relu<<<blocks_for(count), threads, 0, stream>>>(main, shortcut, count);
  return cudaGetLastError();
}

cudaError_t launch_relu_gradients(const float* sum, float* main_gradient, float* shortcut_gradient, std::size_t count,
                                  cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  relu_gradients<<<blocks_for(count), threads, 0, stream>>>(sum, main_gradient, shortcut_gradient, count);
  return cudaGetLastError();
}

cudaError_t launch_step(float* parameters, const float* gradients, std::size_t count, float rate, cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  step<<<blocks_for(count), threads, 0, stream>>>(parameters, gradients, count, rate);
  return cudaGetLastError();
}

cudaError_t launch_step_with_momentum(float* parameters, const float* gradients, float* momentum, std::size_t count,
                                      const Rates& rates, cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  step_with_momentum<<<blocks_for(count), threads, 0, stream>>>(parameters, gradients, momentum, count, rates.lr,
                                                                rates.part, rates.kept, rates.decay);
  return cudaGetLastError();
}

}  // namespace models::kernels
