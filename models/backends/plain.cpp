// SPDX-License-Identifier: Apache-2.0
// The layers as loops, written to be read. The innermost loops go over contiguous pixels or features; sums over images
// are kept in double, so that they do not depend on how a batch is cut into shards more than rounding once.
#include <algorithm>
#include <cmath>
#include <vector>

#include "models/backend.hpp"

namespace models {

namespace {

float dot(const float* a, const float* b, std::size_t count) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::size_t i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

void add_scaled(float* into, const float* from, float scale, std::size_t count) {
#pragma omp simd
  for (std::size_t i = 0; i < count; ++i) into[i] += scale * from[i];
}

void round_into(float* into, const std::vector<double>& sums) {
  std::transform(sums.begin(), sums.end(), into, [](double sum) { return static_cast<float>(sum); });
}

class Convolution : public Layer {
 public:
  Convolution(const Tensor& in, const Tensor& out, const Weights& weights)
      : in_(in), out_(out), weights_(weights), kernel_(in.height - out.height + 1) {}

  void forward(int images) override {
    for (int image = 0; image < images; ++image) {
      for (int to = 0; to < out_.channels; ++to) {
        float* plane = out_.value + image * out_.size() + std::size_t(to) * out_.pixels();
        std::fill(plane, plane + out_.pixels(), weights_.bias[to]);
      }
      each_tap([&](int to, int from, int row, int column) {
        const float weight = weights_.weight[tap(to, from, row, column)];
        for (int y = 0; y < out_.height; ++y) {
          add_scaled(out_row(out_.value, image, to, y), in_row(in_.value, image, from, y + row) + column, weight,
                     out_.width);
        }
      });
    }
  }

  void backward(int images) override {
    std::vector<double> weight(std::size_t(out_.channels) * in_.channels * kernel_ * kernel_);
    std::vector<double> bias(out_.channels);
    for (int image = 0; image < images; ++image) {
      if (in_.gradient) std::fill_n(in_.gradient + image * in_.size(), in_.size(), 0.0F);
      for (int to = 0; to < out_.channels; ++to) {
        for (int y = 0; y < out_.height; ++y) {
          const float* row = out_row(out_.gradient, image, to, y);
          for (int x = 0; x < out_.width; ++x) bias[to] += row[x];
        }
      }
      each_tap([&](int to, int from, int row, int column) {
        double sum = 0;
        for (int y = 0; y < out_.height; ++y) {
          const float* gradient = out_row(out_.gradient, image, to, y);
          sum += dot(gradient, in_row(in_.value, image, from, y + row) + column, out_.width);
          if (!in_.gradient) continue;
          add_scaled(in_row(in_.gradient, image, from, y + row) + column, gradient,
                     weights_.weight[tap(to, from, row, column)], out_.width);
        }
        weight[tap(to, from, row, column)] += sum;
      });
    }
    round_into(weights_.weight_gradient, weight);
    round_into(weights_.bias_gradient, bias);
  }

 private:
  template <typename Visit>
  void each_tap(Visit&& visit) const {
    for (int to = 0; to < out_.channels; ++to) {
      for (int from = 0; from < in_.channels; ++from) {
        for (int row = 0; row < kernel_; ++row) {
          for (int column = 0; column < kernel_; ++column) visit(to, from, row, column);
        }
      }
    }
  }
  std::size_t tap(int to, int from, int row, int column) const {
    return ((std::size_t(to) * in_.channels + from) * kernel_ + row) * kernel_ + column;
  }
  float* out_row(float* values, int image, int channel, int y) const {
    return values + image * out_.size() + std::size_t(channel) * out_.pixels() + std::size_t(y) * out_.width;
  }
  float* in_row(float* values, int image, int channel, int y) const {
    return values + image * in_.size() + std::size_t(channel) * in_.pixels() + std::size_t(y) * in_.width;
  }

  Tensor in_, out_;
  Weights weights_;
  int kernel_;
};

class Relu : public Layer {
 public:
  Relu(const Tensor& in, const Tensor& out) : in_(in), out_(out) {}

  void forward(int images) override {
    for (std::size_t i = 0; i < images * in_.size(); ++i) out_.value[i] = in_.value[i] > 0 ? in_.value[i] : 0;
  }
  void backward(int images) override {
    for (std::size_t i = 0; i < images * in_.size(); ++i) in_.gradient[i] = in_.value[i] > 0 ? out_.gradient[i] : 0;
  }

 private:
  Tensor in_, out_;
};

class AveragePool : public Layer {
 public:
  AveragePool(const Tensor& in, const Tensor& out) : in_(in), out_(out) {}

  void forward(int images) override {
    each_window(images, [&](std::size_t out, std::size_t in) {
      const float* corner = in_.value + in;
      out_.value[out] = 0.25F * (corner[0] + corner[1] + corner[in_.width] + corner[in_.width + 1]);
    });
  }
  void backward(int images) override {
    std::fill_n(in_.gradient, images * in_.size(), 0.0F);
    each_window(images, [&](std::size_t out, std::size_t in) {
      float* corner = in_.gradient + in;
      corner[0] = corner[1] = corner[in_.width] = corner[in_.width + 1] = 0.25F * out_.gradient[out];
    });
  }

 private:
  template <typename Visit>
  void each_window(int images, Visit&& visit) const {
    std::size_t out = 0;
    for (std::size_t plane = 0; plane < std::size_t(images) * in_.channels; ++plane) {
      for (int y = 0; y < out_.height; ++y) {
        for (int x = 0; x < out_.width; ++x) visit(out++, plane * in_.pixels() + 2 * y * in_.width + 2 * x);
      }
    }
  }

  Tensor in_, out_;
};

class Linear : public Layer {
 public:
  Linear(const Tensor& in, const Tensor& out, const Weights& weights) : in_(in), out_(out), weights_(weights) {}

  void forward(int images) override {
    for (int image = 0; image < images; ++image) {
      for (std::size_t to = 0; to < out_.size(); ++to) {
        out_.value[image * out_.size() + to] =
            weights_.bias[to] + dot(weights_.weight + to * in_.size(), in_.value + image * in_.size(), in_.size());
      }
    }
  }
  void backward(int images) override {
    std::vector<double> weight(out_.size() * in_.size());
    std::vector<double> bias(out_.size());
    for (int image = 0; image < images; ++image) {
      const float* value = in_.value + image * in_.size();
      float* gradient = in_.gradient + image * in_.size();
      std::fill_n(gradient, in_.size(), 0.0F);
      for (std::size_t to = 0; to < out_.size(); ++to) {
        const float pull = out_.gradient[image * out_.size() + to];
        bias[to] += pull;
        if (pull == 0) continue;
        add_scaled(gradient, weights_.weight + to * in_.size(), pull, in_.size());
        double* sums = weight.data() + to * in_.size();
        for (std::size_t from = 0; from < in_.size(); ++from) sums[from] += double{pull} * value[from];
      }
    }
    round_into(weights_.weight_gradient, weight);
    round_into(weights_.bias_gradient, bias);
  }

 private:
  Tensor in_, out_;
  Weights weights_;
};

class CrossEntropy : public Layer {
 public:
  CrossEntropy(const Tensor& in, const std::uint8_t* labels, Outcome& outcome)
      : in_(in), labels_(labels), outcome_(outcome) {}

  void forward(int images) override {
    outcome_ = {};
    for (int image = 0; image < images; ++image) {
      const float* logits = in_.value + image * in_.size();
      const float* largest = std::max_element(logits, logits + in_.size());
      outcome_.correct += largest - logits == labels_[image] ? 1 : 0;
      outcome_.loss += std::log(denominator(logits, *largest)) + *largest - logits[labels_[image]];
    }
  }
  void backward(int images) override {
    for (int image = 0; image < images; ++image) {
      const float* logits = in_.value + image * in_.size();
      const float largest = *std::max_element(logits, logits + in_.size());
      const double sum = denominator(logits, largest);
      for (std::size_t i = 0; i < in_.size(); ++i) {
        const double probability = std::exp(double{logits[i]} - largest) / sum;
        in_.gradient[image * in_.size() + i] = static_cast<float>(probability - (i == labels_[image] ? 1 : 0));
      }
    }
  }

 private:
  double denominator(const float* logits, float largest) const {
    double sum = 0;
    for (std::size_t i = 0; i < in_.size(); ++i) sum += std::exp(double{logits[i]} - largest);
    return sum;
  }

  Tensor in_;
  const std::uint8_t* labels_;
  Outcome& outcome_;
};

class Plain : public Backend {
 public:
  std::unique_ptr<Layer> convolution(const Tensor& in, const Tensor& out, const Weights& weights) const override {
    return std::make_unique<Convolution>(in, out, weights);
  }
  std::unique_ptr<Layer> relu(const Tensor& in, const Tensor& out) const override {
    return std::make_unique<Relu>(in, out);
  }
  std::unique_ptr<Layer> average_pool(const Tensor& in, const Tensor& out) const override {
    return std::make_unique<AveragePool>(in, out);
  }
  std::unique_ptr<Layer> linear(const Tensor& in, const Tensor& out, const Weights& weights) const override {
    return std::make_unique<Linear>(in, out, weights);
  }
  std::unique_ptr<Layer> cross_entropy(const Tensor& in, const std::uint8_t* labels, Outcome& outcome) const override {
    return std::make_unique<CrossEntropy>(in, labels, outcome);
  }
};

}  // namespace

std::unique_ptr<Backend> make_plain_backend() { return std::make_unique<Plain>(); }

}  // namespace models
