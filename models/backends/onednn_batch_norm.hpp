// SPDX-License-Identifier: Apache-2.0
// Batch norm by oneDNN, whose own sums in single precision are replaced: over a batch of 16 they are off by so much
// that ResNet-18's gradients are by 3e-3, with sums in double as PyTorch has them by 4e-4.
#pragma once

#include "models/backends/onednn_layer.hpp"

namespace models::onednn {

class BatchNorm : public PrimitiveLayer {
 public:
  BatchNorm(Library& library, const ActivationPointer& in, const ActivationPointer& out, bool relu,
            const Weights& weights);

  void forward(int images) override;
  void evaluate(int images) override;

 private:
  Sequences make(int images) override;
  memory channels(float* data) const;
  void compute_statistics(int images);

  const bool relu_;
  const Weights weights_;
  const int lanes_;  // channels that lie side by side
  std::vector<float> batch_mean_, batch_variance_;
  const memory scale_, shift_, scale_gradient_, shift_gradient_, running_mean_, running_variance_, mean_, variance_;
  std::map<int, Sequence> evaluations_;  // by the number of images
};

}  // namespace models::onednn
