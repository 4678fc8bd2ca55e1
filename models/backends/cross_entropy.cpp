// SPDX-License-Identifier: Apache-2.0
#include "models/backends/cross_entropy.hpp"

#include <algorithm>
#include <cmath>

namespace models {

namespace {

class CrossEntropy : public Layer {
 public:
  CrossEntropy(const TensorPointer& in, const float* logits, float* gradient, const std::uint8_t* labels,
               Outcome& outcome)
      : Layer(nullptr),
        in_(in),
        classes_(in->shape.size()),
        logits_(logits),
        gradient_(gradient),
        labels_(labels),
        outcome_(outcome) {}

  void forward(int images) override {
    outcome_ = {};
    for (int image = 0; image < images; ++image) {
      const float* logits = logits_ + image * classes_;
      const float* largest = std::max_element(logits, logits + classes_);
      outcome_.correct += largest - logits == labels_[image] ? 1 : 0;
      outcome_.loss += std::log(denominator(logits, *largest)) + *largest - logits[labels_[image]];
    }
  }
  void backward(int images) override {
    for (int image = 0; image < images; ++image) {
      const float* logits = logits_ + image * classes_;
      const float largest = *std::max_element(logits, logits + classes_);
      const double sum = denominator(logits, largest);
      for (std::size_t i = 0; i < classes_; ++i) {
        const double probability = std::exp(double{logits[i]} - largest) / sum;
        gradient_[image * classes_ + i] = static_cast<float>(probability - (i == labels_[image] ? 1 : 0));
      }
    }
  }

 private:
  double denominator(const float* logits, float largest) const {
    double sum = 0;
    for (std::size_t i = 0; i < classes_; ++i) sum += std::exp(double{logits[i]} - largest);
    return sum;
  }

  TensorPointer in_;
  std::size_t classes_;
  const float* logits_;
  float* gradient_;
  const std::uint8_t* labels_;
  Outcome& outcome_;
};

}  // namespace

LayerPointer make_cross_entropy(const TensorPointer& in, const float* logits, float* gradient,
                                const std::uint8_t* labels, Outcome& outcome) {
  return std::make_unique<CrossEntropy>(in, logits, gradient, labels, outcome);
}

}  // namespace models
