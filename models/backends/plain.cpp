// SPDX-License-Identifier: Apache-2.0
// The layers as loops, written to be read. The innermost loops go over contiguous pixels or features. Every sum is kept
// in double and rounded once: the result depends neither on how a batch is cut into shards nor on how many numbers this
// CPU adds at a time.
#include <algorithm>
#include <cmath>
#include <vector>

#include "models/backend.hpp"
#include "models/backends/cross_entropy.hpp"

namespace models {

namespace {

// In memory order image, channel, row, column.
struct Values : Tensor {
  using Tensor::Tensor;
  float* value = nullptr;
  float* gradient = nullptr;  // null where nobody needs it
  std::vector<harness::Buffer> memory;
};
using ValuesPointer = std::shared_ptr<Values>;

template <typename Number>
double dot(const Number* a, const float* b, std::size_t count) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::size_t i = 0; i < count; ++i) sum += double{a[i]} * double{b[i]};
  return sum;
}

template <typename Number>
void add_scaled(double* into, const Number* from, double scale, std::size_t count) {
#pragma omp simd
  for (std::size_t i = 0; i < count; ++i) into[i] += scale * double{from[i]};
}

void round_into(float* into, const double* sums, std::size_t count) {
  std::transform(sums, sums + count, into, [](double sum) { return static_cast<float>(sum); });
}
void round_into(float* into, const std::vector<double>& sums) { round_into(into, sums.data(), sums.size()); }

// An output plane is computed as wide as the input's rows are: then its pixels and those of the input that a tap meets
// lie side by side from the first to the last, whatever falls between two output rows is left out at the end.
class Convolution : public Layer {
 public:
  Convolution(const ValuesPointer& in, const ValuesPointer& out, const Weights& weights)
      : Layer(out),
        in_(in),
        out_(out),
        weights_(weights),
        kernel_(in->shape.height - out->shape.height + 1),
        wide_(std::size_t(out->shape.height - 1) * in->shape.width + out->shape.width) {}

  void forward(int images) override {
    for (int image = 0; image < images; ++image) {
      for (int to = 0; to < out_->shape.channels; ++to) {
        std::fill(wide_.begin(), wide_.end(), double{weights_.bias[to]});
        each_tap(image, to, [&](std::size_t tap, std::size_t from) {
          add_scaled(wide_.data(), in_->value + from, weights_.weight[tap], wide_.size());
        });
        each_row(
            image, to, [](double* wide, float* row, int width) { round_into(row, wide, width); }, out_->value);
      }
    }
  }

  void backward(int images) override {
    std::vector<double> weight(std::size_t(out_->shape.channels) * taps());
    std::vector<double> bias(out_->shape.channels);
    std::vector<double> gradient(in_->gradient ? in_->shape.size() : 0);
    std::fill(wide_.begin(), wide_.end(), 0.0);
    for (int image = 0; image < images; ++image) {
      const std::size_t start = image * in_->shape.size();
      std::fill(gradient.begin(), gradient.end(), 0.0);
      for (int to = 0; to < out_->shape.channels; ++to) {
        each_row(
            image, to, [](double* wide, float* row, int width) { std::copy_n(row, width, wide); }, out_->gradient);
        for (const double pull : wide_) bias[to] += pull;
        each_tap(image, to, [&](std::size_t tap, std::size_t from) {
          weight[tap] += dot(wide_.data(), in_->value + from, wide_.size());
          if (in_->gradient) {
            add_scaled(gradient.data() + from - start, wide_.data(), weights_.weight[tap], wide_.size());
          }
        });
      }
      if (in_->gradient) round_into(in_->gradient + start, gradient);
    }
    round_into(weights_.weight_gradient, weight);
    round_into(weights_.bias_gradient, bias);
  }

 private:
  std::size_t taps() const { return std::size_t(in_->shape.channels) * kernel_ * kernel_; }

  // Visits the weights of an output channel, each with the place in the input where the first pixel meets it.
  template <typename Visit>
  void each_tap(int image, int to, Visit&& visit) const {
    std::size_t tap = to * taps();
    for (int channel = 0; channel < in_->shape.channels; ++channel) {
      const std::size_t plane = image * in_->shape.size() + std::size_t(channel) * in_->shape.pixels();
      for (int row = 0; row < kernel_; ++row) {
        for (int column = 0; column < kernel_; ++column) {
          visit(tap++, plane + std::size_t(row) * in_->shape.width + column);
        }
      }
    }
  }
  // Visits the rows of an output plane, each with its place among the wide ones.
  template <typename Visit>
  void each_row(int image, int to, Visit&& visit, float* values) {
    float* plane = values + image * out_->shape.size() + std::size_t(to) * out_->shape.pixels();
    for (int y = 0; y < out_->shape.height; ++y) {
      visit(wide_.data() + std::size_t(y) * in_->shape.width, plane + std::size_t(y) * out_->shape.width,
            out_->shape.width);
    }
  }

  ValuesPointer in_, out_;
  Weights weights_;
  int kernel_;
  std::vector<double> wide_;
};

class Relu : public Layer {
 public:
  explicit Relu(const ValuesPointer& in) : Layer(in), in_(in) {}

  void forward(int images) override {
    float* value = in_->value;
    for (std::size_t i = 0; i < images * in_->shape.size(); ++i) value[i] = value[i] > 0 ? value[i] : 0;
  }
  void backward(int images) override {
    float* gradient = in_->gradient;
    for (std::size_t i = 0; i < images * in_->shape.size(); ++i) gradient[i] = in_->value[i] > 0 ? gradient[i] : 0;
  }

 private:
  ValuesPointer in_;
};

class AveragePool : public Layer {
 public:
  AveragePool(const ValuesPointer& in, const ValuesPointer& out) : Layer(out), in_(in), out_(out) {}

  void forward(int images) override {
    each_window(images, [&](std::size_t out, std::size_t in) {
      const float* corner = in_->value + in;
      out_->value[out] = 0.25F * (corner[0] + corner[1] + corner[in_->shape.width] + corner[in_->shape.width + 1]);
    });
  }
  void backward(int images) override {
    std::fill_n(in_->gradient, images * in_->shape.size(), 0.0F);
    each_window(images, [&](std::size_t out, std::size_t in) {
      float* corner = in_->gradient + in;
      corner[0] = corner[1] = corner[in_->shape.width] = corner[in_->shape.width + 1] = 0.25F * out_->gradient[out];
    });
  }

 private:
  template <typename Visit>
  void each_window(int images, Visit&& visit) const {
    std::size_t out = 0;
    for (std::size_t plane = 0; plane < std::size_t(images) * in_->shape.channels; ++plane) {
      for (int y = 0; y < out_->shape.height; ++y) {
        for (int x = 0; x < out_->shape.width; ++x)
          visit(out++, plane * in_->shape.pixels() + 2 * y * in_->shape.width + 2 * x);
      }
    }
  }

  ValuesPointer in_, out_;
};

class Linear : public Layer {
 public:
  Linear(const ValuesPointer& in, const ValuesPointer& out, const Weights& weights)
      : Layer(out), in_(in), out_(out), weights_(weights) {}

  void forward(int images) override {
    for (int image = 0; image < images; ++image) {
      for (std::size_t to = 0; to < out_->shape.size(); ++to) {
        out_->value[image * out_->shape.size() + to] =
            static_cast<float>(weights_.bias[to] + dot(weights_.weight + to * in_->shape.size(),
                                                       in_->value + image * in_->shape.size(), in_->shape.size()));
      }
    }
  }
  void backward(int images) override {
    std::vector<double> weight(out_->shape.size() * in_->shape.size());
    std::vector<double> bias(out_->shape.size());
    std::vector<double> gradient(in_->shape.size());
    for (int image = 0; image < images; ++image) {
      const float* value = in_->value + image * in_->shape.size();
      std::fill(gradient.begin(), gradient.end(), 0.0);
      for (std::size_t to = 0; to < out_->shape.size(); ++to) {
        const float pull = out_->gradient[image * out_->shape.size() + to];
        bias[to] += pull;
        if (pull == 0) continue;
        add_scaled(gradient.data(), weights_.weight + to * in_->shape.size(), pull, in_->shape.size());
        add_scaled(weight.data() + to * in_->shape.size(), value, pull, in_->shape.size());
      }
      round_into(in_->gradient + image * in_->shape.size(), gradient);
    }
    round_into(weights_.weight_gradient, weight);
    round_into(weights_.bias_gradient, bias);
  }

 private:
  ValuesPointer in_, out_;
  Weights weights_;
};

class Plain : public Backend {
 public:
  explicit Plain(const Workplace& workplace) : workplace_(workplace) {}

  TensorPointer input(const Shape& shape, float* images) override {
    auto tensor = std::make_shared<Values>(shape);
    tensor->value = images;
    return tensor;
  }
  LayerPointer convolution(const TensorPointer& in, int channels, int kernel, const Weights& weights) override {
    const Shape shape{channels, in->shape.height - kernel + 1, in->shape.width - kernel + 1};
    return std::make_unique<Convolution>(values(in), make(shape), weights);
  }
  LayerPointer relu(const TensorPointer& in) override { return std::make_unique<Relu>(values(in)); }
  LayerPointer average_pool(const TensorPointer& in) override {
    const Shape shape{in->shape.channels, in->shape.height / 2, in->shape.width / 2};
    return std::make_unique<AveragePool>(values(in), make(shape));
  }
  LayerPointer linear(const TensorPointer& in, int features, const Weights& weights) override {
    return std::make_unique<Linear>(values(in), make({features, 1, 1}), weights);
  }
  LayerPointer cross_entropy(const TensorPointer& in, const std::uint8_t* labels, Outcome& outcome) override {
    return make_cross_entropy(in, values(in)->value, values(in)->gradient, labels, outcome);
  }

 private:
  static ValuesPointer values(const TensorPointer& tensor) { return std::static_pointer_cast<Values>(tensor); }

  ValuesPointer make(const Shape& shape) const {
    auto tensor = std::make_shared<Values>(shape);
    const std::size_t bytes = workplace_.capacity * shape.size() * sizeof(float);
    for (auto* values : {&tensor->value, &tensor->gradient}) {
      tensor->memory.push_back(workplace_.device.allocate(bytes));
      *values = reinterpret_cast<float*>(tensor->memory.back().data());
    }
    return tensor;
  }

  Workplace workplace_;
};

}  // namespace

std::unique_ptr<Backend> make_plain_backend(const Workplace& workplace) { return std::make_unique<Plain>(workplace); }

}  // namespace models
