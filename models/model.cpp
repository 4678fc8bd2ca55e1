// SPDX-License-Identifier: Apache-2.0
#include "models/model.hpp"

#include <array>
#include <cmath>
#include <functional>
#include <numeric>

#include "harness/device/cpu.hpp"
#include "harness/options.hpp"
#include "harness/random.hpp"

namespace models {

namespace {

constexpr int image_side = 28;

constexpr std::array rows = {
    ModelRow{"lenet", "two convolutions and two linear layers, 129,068 parameters", make_lenet}};

}  // namespace

Model::Model(harness::Stream& stream, const ModelSettings& settings)
    : stream_(stream), settings_(settings), backend_(make_backend(settings.backend)) {
  if (settings.capacity < 1) throw harness::Error("a model needs room for at least one image");
  last_ = next(1, image_side, image_side, false);
  images_ = last_.value;
  memory_.push_back(stream.device().allocate(settings.capacity));
  labels_ = reinterpret_cast<std::uint8_t*>(memory_.back().data());
}

float* Model::allocate(std::size_t elements) {
  memory_.push_back(stream_.device().allocate(elements * sizeof(float)));
  return reinterpret_cast<float*>(memory_.back().data());
}

Tensor Model::next(int channels, int height, int width, bool gradient) {
  Tensor tensor{channels, height, width};
  tensor.value = allocate(settings_.capacity * tensor.size());
  if (gradient) tensor.gradient = allocate(settings_.capacity * tensor.size());
  return tensor;
}

template <typename Make>
void Model::add_with_parameters(const std::string& name, std::vector<int> weight_shape, const Tensor& out, Make make) {
  const int outputs = weight_shape[0];
  const int fan_in = std::accumulate(weight_shape.begin() + 1, weight_shape.end(), 1, std::multiplies<>());
  const auto index = static_cast<int>(parameters_.size());
  const std::size_t weights = std::size_t(outputs) * fan_in;
  parameters_.push_back({name + ".weight", std::move(weight_shape), fan_in, false, weights, 0, size_});
  parameters_.push_back({name + ".bias", {outputs}, fan_in, true, std::size_t(outputs), 0, size_ + weights});
  size_ += weights + outputs;
  layers_.push_back({name,
                     [this, index, make, in = last_, out] {
                       const std::size_t weight = parameters_[index].offset;
                       const std::size_t bias = parameters_[index + 1].offset;
                       return make(in, out,
                                   Weights{parameter_arena_ + weight, parameter_arena_ + bias, gradient_arena_ + weight,
                                           gradient_arena_ + bias});
                     },
                     {index, index + 1}});
  last_ = out;
}

void Model::convolution(const std::string& name, int channels, int kernel) {
  const Tensor out = next(channels, last_.height - kernel + 1, last_.width - kernel + 1);
  add_with_parameters(name, {channels, last_.channels, kernel, kernel}, out,
                      [this](const Tensor& in, const Tensor& to, const Weights& weights) {
                        return backend_->convolution(in, to, weights);
                      });
}

void Model::linear(const std::string& name, int features) {
  const Tensor out = next(features, 1, 1);
  add_with_parameters(
      name, {features, static_cast<int>(last_.size())}, out,
      [this](const Tensor& in, const Tensor& to, const Weights& weights) { return backend_->linear(in, to, weights); });
}

void Model::relu(const std::string& name) {
  const Tensor out = next(last_.channels, last_.height, last_.width);
  layers_.push_back({name, [this, in = last_, out] { return backend_->relu(in, out); }});
  last_ = out;
}

void Model::average_pool(const std::string& name) {
  const Tensor out = next(last_.channels, last_.height / 2, last_.width / 2);
  layers_.push_back({name, [this, in = last_, out] { return backend_->average_pool(in, out); }});
  last_ = out;
}

void Model::complete() {
  layers_.push_back({"cross_entropy", [this, in = last_] { return backend_->cross_entropy(in, labels_, outcome_); }});
  std::size_t offset = 0;
  for (auto layer = layers_.rbegin(); layer != layers_.rend(); ++layer) {
    layer->slice.offset = offset;
    for (const int index : layer->parameters) {
      parameters_[index].offset = offset;
      offset += parameters_[index].count;
    }
    layer->slice.count = offset - layer->slice.offset;
  }
  parameter_arena_ = allocate(size_);
  gradient_arena_ = allocate(size_);
  draw();
  // Layers are made on the worker that runs them: libraries keep state a thread.
  harness::run(stream_, [this] {
    for (Named& layer : layers_) layer.layer = layer.make();
  });
  stream_.sync();
}

void Model::draw() {
  for (const Parameter& parameter : parameters_) {
    double bound = 0;
    if (settings_.init == Init::usual) bound = 1 / std::sqrt(double(parameter.fan_in));
    if (settings_.init == Init::he && !parameter.bias) bound = std::sqrt(2.0 / parameter.fan_in) * std::sqrt(3.0);
    if (settings_.init == Init::std001 && !parameter.bias) bound = 0.01 * std::sqrt(3.0);
    for (std::size_t i = 0; i < parameter.count; ++i) {
      parameter_arena_[parameter.offset + i] = harness::uniform(settings_.seed + parameter.reference_offset + i, bound);
    }
  }
}

void Model::forward(int images) {
  harness::run(stream_, [this, images] {
    for (Named& layer : layers_) layer.layer->forward(images);
  });
}

Slice Model::backward(int layer, int images) {
  Named& named = layers_.at(layer);
  harness::run(stream_, [&named, images] { named.layer->backward(images); });
  return named.slice;
}

void Model::step(float rate) {
  harness::run(stream_, [this, rate] {
    for (std::size_t i = 0; i < size_; ++i) parameter_arena_[i] -= rate * gradient_arena_[i];
  });
}

std::span<const ModelRow> catalogue() { return rows; }

std::unique_ptr<Model> make_model(std::string_view name, harness::Stream& stream, const ModelSettings& settings) {
  std::string known;
  for (const auto& row : rows) {
    if (row.name == name) return row.make(stream, settings);
    known.append(known.empty() ? "" : ", ").append(row.name);
  }
  throw harness::bad_value("model", name, "this build has: " + known);
}

}  // namespace models
