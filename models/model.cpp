// SPDX-License-Identifier: Apache-2.0
#include "models/model.hpp"

#include <algorithm>
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

Init parse_init(std::string_view name) {
  if (name == "he") return Init::he;
  if (name == "std001") return Init::std001;
  if (name == "default") return Init::usual;
  throw harness::bad_value("init", name, "allowed: he, std001, default");
}

Model::Model(harness::Stream& stream, const ModelSettings& settings)
    : stream_(stream), settings_(settings), shape_{1, image_side, image_side} {
  find_backend(settings.backend);
  if (settings.capacity < 1) throw harness::Error("a model needs room for at least one image");
  images_ = allocate(settings.capacity * shape_.size());
  memory_.push_back(stream.device().allocate(settings.capacity));
  labels_ = reinterpret_cast<std::uint8_t*>(memory_.back().data());
}

float* Model::allocate(std::size_t elements) {
  memory_.push_back(stream_.device().allocate(elements * sizeof(float)));
  return reinterpret_cast<float*>(memory_.back().data());
}

void Model::add(const std::string& name, const Shape& out, Make make) {
  layers_.push_back({name, out, std::move(make)});
  shape_ = out;
}

void Model::add_with_parameters(const std::string& name, std::vector<int> weight_shape, const Shape& out, Make make) {
  const int outputs = weight_shape[0];
  const int fan_in = std::accumulate(weight_shape.begin() + 1, weight_shape.end(), 1, std::multiplies<>());
  const int layer = layers();
  const auto index = static_cast<int>(parameters_.size());
  const std::size_t weights = std::size_t(outputs) * fan_in;
  parameters_.push_back({name + ".weight", std::move(weight_shape), layer, fan_in, false, weights, 0, size_});
  parameters_.push_back({name + ".bias", {outputs}, layer, fan_in, true, std::size_t(outputs), 0, size_ + weights});
  size_ += weights + outputs;
  add(name, out, std::move(make));
  layers_.back().parameters = {index, index + 1};
}

void Model::convolution(const std::string& name, int channels, int kernel) {
  add_with_parameters(name, {channels, shape_.channels, kernel, kernel},
                      {channels, shape_.height - kernel + 1, shape_.width - kernel + 1},
                      [this, channels, kernel](const TensorPointer& in, const Weights& weights) {
                        return backend_->convolution(in, channels, kernel, weights);
                      });
}

void Model::linear(const std::string& name, int features) {
  add_with_parameters(name, {features, static_cast<int>(shape_.size())}, {features, 1, 1},
                      [this, features](const TensorPointer& in, const Weights& weights) {
                        return backend_->linear(in, features, weights);
                      });
}

void Model::relu(const std::string& name) {
  add(name, shape_, [this](const TensorPointer& in, const Weights&) { return backend_->relu(in); });
}

void Model::average_pool(const std::string& name) {
  add(name, {shape_.channels, shape_.height / 2, shape_.width / 2},
      [this](const TensorPointer& in, const Weights&) { return backend_->average_pool(in); });
}

void Model::complete() {
  add("cross_entropy", {},
      [this](const TensorPointer& in, const Weights&) { return backend_->cross_entropy(in, labels_, outcome_); });
  lay_out();
  draw();
  harness::run(stream_, [this] { make_layers(); });
  stream_.sync();
}

void Model::lay_out() {
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
}

void Model::make_layers() {
  backend_ = find_backend(settings_.backend).make({stream_.device(), settings_.capacity, settings_.threads});
  TensorPointer in = backend_->input({1, image_side, image_side}, images_);
  for (Named& layer : layers_) {
    Weights weights;
    if (!layer.parameters.empty()) {
      const std::size_t weight = parameters_[layer.parameters[0]].offset;
      const std::size_t bias = parameters_[layer.parameters[1]].offset;
      weights = {parameter_arena_ + weight, parameter_arena_ + bias, gradient_arena_ + weight, gradient_arena_ + bias};
    }
    layer.layer = layer.make(in, weights);
    in = layer.layer->output();
  }
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
  for (int layer = 0; layer < layers(); ++layer) forward(layer, images);
}

void Model::forward(int layer, int images) {
  Named& named = layers_.at(layer);
  harness::run(stream_, [this, &named, images] {
    if (images == 0) {
      outcome_ = {};
    } else {
      named.layer->forward(images);
    }
  });
}

Slice Model::backward(int layer, int images) {
  Named& named = layers_.at(layer);
  harness::run(stream_, [this, &named, images] {
    if (images == 0) {
      std::fill_n(gradient_arena_ + named.slice.offset, named.slice.count, 0.0F);
    } else {
      named.layer->backward(images);
    }
  });
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
