// SPDX-License-Identifier: Apache-2.0
// The layers as loops, written to be read. The innermost loops go over contiguous pixels or features. Every sum is kept
// in double and rounded once: the result depends neither on how a batch is cut into shards nor on how many numbers this
// CPU adds at a time.
#include <algorithm>
#include <cmath>
#include <vector>

#include "harness/options.hpp"
#include "models/backend.hpp"
#include "models/backends/cross_entropy.hpp"

namespace models {

namespace {

// In memory order image, channel, row, column.
struct Values : Tensor {
  using Tensor::Tensor;
  Extent extent() const override { return {value, gradient, memory.empty() ? 0 : memory.back().bytes()}; }
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

// Each input image is first copied with its padding, and taken apart into phases: planes that hold every stride-th
// pixel of every stride-th row. An output plane is computed as wide as a phase's rows are. Then its pixels and those of
// the phase that a tap meets lie side by side from the first to the last; whatever falls between two output rows is
// left out at the end.
class Convolution : public Layer {
 public:
  Convolution(const ValuesPointer& in, const ValuesPointer& out, const Window& window, const Weights& weights)
      : Layer(out),
        in_(in),
        out_(out),
        window_(window),
        weights_(weights),
        phase_height_(out->shape.height + (window.kernel - 1) / window.stride),
        phase_width_(out->shape.width + (window.kernel - 1) / window.stride),
        phases_(std::size_t(in->shape.channels) * window.stride * window.stride * phase_height_ * phase_width_),
        wide_(std::size_t(out->shape.height - 1) * phase_width_ + out->shape.width) {}

  void forward(int images) override {
    for (int image = 0; image < images; ++image) {
      take_apart(in_->value + image * in_->shape.size());
      for (int to = 0; to < out_->shape.channels; ++to) {
        std::fill(wide_.begin(), wide_.end(), double{weights_.bias[to]});
        each_tap(to, [&](std::size_t tap, std::size_t from) {
          add_scaled(wide_.data(), phases_.data() + from, weights_.weight[tap], wide_.size());
        });
        each_row(
            image, to, [](double* wide, float* row, int width) { round_into(row, wide, width); }, out_->value);
      }
    }
  }

  void backward(int images) override {
    std::vector<double> weight(std::size_t(out_->shape.channels) * taps());
    std::vector<double> bias(out_->shape.channels);
    std::vector<double> gradient(in_->gradient ? phases_.size() : 0);
    std::fill(wide_.begin(), wide_.end(), 0.0);
    for (int image = 0; image < images; ++image) {
      take_apart(in_->value + image * in_->shape.size());
      std::fill(gradient.begin(), gradient.end(), 0.0);
      for (int to = 0; to < out_->shape.channels; ++to) {
        each_row(
            image, to, [](double* wide, float* row, int width) { std::copy_n(row, width, wide); }, out_->gradient);
        for (const double pull : wide_) bias[to] += pull;
        each_tap(to, [&](std::size_t tap, std::size_t from) {
          weight[tap] += dot(wide_.data(), phases_.data() + from, wide_.size());
          if (in_->gradient) add_scaled(gradient.data() + from, wide_.data(), weights_.weight[tap], wide_.size());
        });
      }
      if (in_->gradient) put_together(gradient, in_->gradient + image * in_->shape.size());
    }
    round_into(weights_.weight_gradient, weight);
    round_into(weights_.bias_gradient, bias);
  }

 private:
  std::size_t taps() const { return std::size_t(in_->shape.channels) * window_.kernel * window_.kernel; }

  // Where a pixel lies among the phases, its row and column counted with the padding.
  std::size_t place(int channel, int row, int column) const {
    const int stride = window_.stride;
    const int phase = (channel * stride + row % stride) * stride + column % stride;
    return (std::size_t(phase) * phase_height_ + row / stride) * phase_width_ + column / stride;
  }
  // Visits an image's pixels that a window meets, each with its place.
  template <typename Visit>
  void each_pixel(Visit&& visit) const {
    const Shape& in = in_->shape;
    const int height = phase_height_ * window_.stride - window_.padding;
    const int width = phase_width_ * window_.stride - window_.padding;
    for (int channel = 0; channel < in.channels; ++channel) {
      for (int y = 0; y < std::min(in.height, height); ++y) {
        for (int x = 0; x < std::min(in.width, width); ++x) {
          visit((std::size_t(channel) * in.height + y) * in.width + x,
                place(channel, y + window_.padding, x + window_.padding));
        }
      }
    }
  }
  void take_apart(const float* image) {
    each_pixel([&](std::size_t pixel, std::size_t at) { phases_[at] = image[pixel]; });
  }
  void put_together(const std::vector<double>& phases, float* image) const {
    std::fill_n(image, in_->shape.size(), 0.0F);
    each_pixel([&](std::size_t pixel, std::size_t at) { image[pixel] = static_cast<float>(phases[at]); });
  }

  // Visits the weights of an output channel, each with the place where the first pixel meets it.
  template <typename Visit>
  void each_tap(int to, Visit&& visit) const {
    std::size_t tap = to * taps();
    for (int channel = 0; channel < in_->shape.channels; ++channel) {
      for (int row = 0; row < window_.kernel; ++row) {
        for (int column = 0; column < window_.kernel; ++column) visit(tap++, place(channel, row, column));
      }
    }
  }
  // Visits the rows of an output plane, each with its place among the wide ones.
  template <typename Visit>
  void each_row(int image, int to, Visit&& visit, float* values) {
    float* plane = values + image * out_->shape.size() + std::size_t(to) * out_->shape.pixels();
    for (int y = 0; y < out_->shape.height; ++y) {
      visit(wide_.data() + std::size_t(y) * phase_width_, plane + std::size_t(y) * out_->shape.width,
            out_->shape.width);
    }
  }

  ValuesPointer in_, out_;
  Window window_;
  Weights weights_;
  int phase_height_, phase_width_;
  std::vector<float> phases_;  // of one image; the padding stays zero
  std::vector<double> wide_;
};

class BatchNorm : public Layer {
 public:
  BatchNorm(const ValuesPointer& in, const ValuesPointer& out, bool relu, const Weights& weights)
      : Layer(out), in_(in), out_(out), relu_(relu), weights_(weights), used_(in->shape.channels) {}

  void forward(int images) override {
    const double count = double(images) * in_->shape.pixels();
    for (int channel = 0; channel < in_->shape.channels; ++channel) {
      double sum = 0, square = 0;
      each(images, channel, [&](std::size_t i) { sum += in_->value[i]; });
      const double mean = sum / count;
      each(images, channel, [&](std::size_t i) { square += (in_->value[i] - mean) * (in_->value[i] - mean); });
      const auto move = [](float& running, double now) {
        running = static_cast<float>((1 - replaced) * double{running} + replaced * now);
      };
      move(weights_.running_mean[channel], mean);
      move(weights_.running_variance[channel], square / std::max(count - 1, 1.0));
      used_[channel] = {mean, 1 / std::sqrt(square / count + epsilon)};
      put_out(images, channel);
    }
  }
  void evaluate(int images) override {
    for (int channel = 0; channel < in_->shape.channels; ++channel) {
      used_[channel] = {weights_.running_mean[channel], 1 / std::sqrt(weights_.running_variance[channel] + epsilon)};
      put_out(images, channel);
    }
  }

  // With n the normalised input and g the gradient of the output: mean and deviation depend on each input, too, so the
  // gradient of the input is scale / deviation * (g - mean(g) - n * mean(g n)).
  void backward(int images) override {
    const double count = double(images) * in_->shape.pixels();
    for (int channel = 0; channel < in_->shape.channels; ++channel) {
      const Used& used = used_[channel];
      const auto pull = [&](std::size_t i) { return relu_ && !(out_->value[i] > 0) ? 0.0 : double{out_->gradient[i]}; };
      double sum = 0, product = 0;
      each(images, channel, [&](std::size_t i) {
        sum += pull(i);
        product += pull(i) * normalised(used, i);
      });
      weights_.bias_gradient[channel] = static_cast<float>(sum);
      weights_.weight_gradient[channel] = static_cast<float>(product);
      const double scale = weights_.weight[channel] * used.over_deviation;
      each(images, channel, [&](std::size_t i) {
        in_->gradient[i] = static_cast<float>(scale * (pull(i) - sum / count - normalised(used, i) * product / count));
      });
    }
  }

 private:
  static constexpr double epsilon = 1e-5, replaced = 0.1;
  // What the last forward pass took from a channel's values, and multiplied them by.
  struct Used {
    double mean = 0, over_deviation = 1;
  };

  double normalised(const Used& used, std::size_t i) const { return (in_->value[i] - used.mean) * used.over_deviation; }
  void put_out(int images, int channel) {
    each(images, channel, [&](std::size_t i) {
      const double value = normalised(used_[channel], i) * weights_.weight[channel] + weights_.bias[channel];
      out_->value[i] = static_cast<float>(relu_ && !(value > 0) ? 0 : value);
    });
  }
  // Visits the elements of a channel.
  template <typename Visit>
  void each(int images, int channel, Visit&& visit) const {
    for (int image = 0; image < images; ++image) {
      const std::size_t plane = image * in_->shape.size() + std::size_t(channel) * in_->shape.pixels();
      for (std::size_t i = plane; i < plane + in_->shape.pixels(); ++i) visit(i);
    }
  }

  ValuesPointer in_, out_;
  bool relu_;
  Weights weights_;
  std::vector<Used> used_;
};

class Branch : public Layer {
 public:
  Branch(const ValuesPointer& in, const ValuesPointer& out) : Layer(out), in_(in), out_(out) {}

  void forward(int) override {}
  void backward(int images) override {
    for (std::size_t i = 0; i < images * in_->shape.size(); ++i) in_->gradient[i] += out_->gradient[i];
  }

 private:
  ValuesPointer in_, out_;
};

class ResidualSum : public Layer {
 public:
  ResidualSum(const ValuesPointer& main, const ValuesPointer& shortcut)
      : Layer(main), main_(main), shortcut_(shortcut) {}

  void forward(int images) override {
    for (std::size_t i = 0; i < images * main_->shape.size(); ++i) {
      main_->value[i] = std::max(main_->value[i] + shortcut_->value[i], 0.0F);
    }
  }
  void backward(int images) override {
    for (std::size_t i = 0; i < images * main_->shape.size(); ++i) {
      if (!(main_->value[i] > 0)) main_->gradient[i] = 0;
      shortcut_->gradient[i] = main_->gradient[i];
    }
  }

 private:
  ValuesPointer main_, shortcut_;
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

class Outlet : public Layer {
 public:
  Outlet(const ValuesPointer& in, const ValuesPointer& out, Slice channels)
      : Layer(out), in_(in), out_(out), before_(channels.offset * in->shape.pixels()) {}

  void forward(int images) override {
    each_image(images, [&](std::size_t from, std::size_t to, std::size_t count) {
      std::copy_n(in_->value + from, count, out_->value + to);
    });
  }
  void backward(int images) override {
    if (!in_->gradient) return;
    std::fill_n(in_->gradient, images * in_->shape.size(), 0.0F);
    each_image(images, [&](std::size_t from, std::size_t to, std::size_t count) {
      std::copy_n(out_->gradient + to, count, in_->gradient + from);
    });
  }

 private:
  template <typename Visit>
  void each_image(int images, Visit&& visit) const {
    const std::size_t count = out_->shape.size();
    for (int image = 0; image < images; ++image) visit(image * in_->shape.size() + before_, image * count, count);
  }

  ValuesPointer in_, out_;
  std::size_t before_;  // elements of an image
};

class AveragePool : public Layer {
 public:
  AveragePool(const ValuesPointer& in, const ValuesPointer& out, int side)
      : Layer(out), in_(in), out_(out), side_(side) {}

  void forward(int images) override {
    each_window(images, [&](std::size_t out, std::size_t corner) {
      double sum = 0;
      each_pixel(corner, [&](std::size_t pixel) { sum += in_->value[pixel]; });
      out_->value[out] = static_cast<float>(sum / (side_ * side_));
    });
  }
  void backward(int images) override {
    std::fill_n(in_->gradient, images * in_->shape.size(), 0.0F);
    each_window(images, [&](std::size_t out, std::size_t corner) {
      const auto part = static_cast<float>(double{out_->gradient[out]} / (side_ * side_));
      each_pixel(corner, [&](std::size_t pixel) { in_->gradient[pixel] = part; });
    });
  }

 private:
  template <typename Visit>
  void each_window(int images, Visit&& visit) const {
    std::size_t out = 0;
    for (std::size_t plane = 0; plane < std::size_t(images) * in_->shape.channels; ++plane) {
      for (int y = 0; y < out_->shape.height; ++y) {
        for (int x = 0; x < out_->shape.width; ++x) {
          visit(out++, plane * in_->shape.pixels() + std::size_t(side_) * (y * in_->shape.width + x));
        }
      }
    }
  }
  template <typename Visit>
  void each_pixel(std::size_t corner, Visit&& visit) const {
    for (int y = 0; y < side_; ++y) {
      for (int x = 0; x < side_; ++x) visit(corner + std::size_t(y) * in_->shape.width + x);
    }
  }

  ValuesPointer in_, out_;
  int side_;
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
      if (in_->gradient) round_into(in_->gradient + image * in_->shape.size(), gradient);
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

  TensorPointer input(const Shape& shape, float* values, float* gradients) override {
    auto tensor = std::make_shared<Values>(shape);
    tensor->value = values;
    tensor->gradient = gradients;
    return tensor;
  }
  LayerPointer convolution(const TensorPointer& in, int channels, const Window& window,
                           const Weights& weights) override {
    const Shape shape{channels, window.outputs(in->shape.height), window.outputs(in->shape.width)};
    return std::make_unique<Convolution>(values(in), make(shape), window, weights);
  }
  LayerPointer batch_norm(const TensorPointer& in, bool relu, const Weights& weights) override {
    return std::make_unique<BatchNorm>(values(in), make(in->shape), relu, weights);
  }
  LayerPointer relu(const TensorPointer& in) override { return std::make_unique<Relu>(values(in)); }
  LayerPointer branch(const TensorPointer& in) override {
    const ValuesPointer out = make(in->shape, values(in)->value);
    return std::make_unique<Branch>(values(in), out);
  }
  LayerPointer residual_sum(const TensorPointer& main, const TensorPointer& shortcut) override {
    return std::make_unique<ResidualSum>(values(main), values(shortcut));
  }
  LayerPointer outlet(const TensorPointer& in, Slice channels) override {
    const Shape shape{static_cast<int>(channels.count), in->shape.height, in->shape.width};
    return std::make_unique<Outlet>(values(in), make(shape), channels);
  }
  LayerPointer average_pool(const TensorPointer& in, int side) override {
    const Shape shape{in->shape.channels, in->shape.height / side, in->shape.width / side};
    return std::make_unique<AveragePool>(values(in), make(shape), side);
  }
  LayerPointer linear(const TensorPointer& in, int features, const Weights& weights) override {
    return std::make_unique<Linear>(values(in), make({features, 1, 1}), weights);
  }
  LayerPointer cross_entropy(const TensorPointer& in, const std::uint8_t* labels, Outcome& outcome) override {
    return make_cross_entropy(in, values(in)->value, values(in)->gradient, labels, outcome);
  }

 private:
  static ValuesPointer values(const TensorPointer& tensor) { return std::static_pointer_cast<Values>(tensor); }

  // With memory for gradients, and for values unless those are somewhere already.
  ValuesPointer make(const Shape& shape, float* value = nullptr) const {
    auto tensor = std::make_shared<Values>(shape);
    const auto allocate = [&] {
      tensor->memory.push_back(workplace_.device.allocate(workplace_.capacity * shape.size() * sizeof(float)));
      return reinterpret_cast<float*>(tensor->memory.back().data());
    };
    tensor->value = value ? value : allocate();
    tensor->gradient = allocate();
    return tensor;
  }

  Workplace workplace_;
};

}  // namespace

std::unique_ptr<Backend> make_plain_backend(const Workplace& workplace) {
  require_math(workplace.math, {Math::f32}, "the plain backend");
  return std::make_unique<Plain>(workplace);
}

}  // namespace models
