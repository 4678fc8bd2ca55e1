// SPDX-License-Identifier: Apache-2.0
#include "models/model.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numeric>

#include "harness/device/cpu.hpp"
#include "harness/device/cuda.hpp"
#include "harness/options.hpp"
#include "harness/random.hpp"

namespace models {

namespace {

constexpr std::array rows = {
    ModelRow{"lenet", "two convolutions and two linear layers, 129,068 parameters", make_lenet},
    ModelRow{"resnet18", "20 convolutions around which values also go straight on, 11,175,818 parameters",
             make_resnet18},
    ModelRow{"mlp", "one linear layer on ten numbers, 22 parameters", make_mlp, {10, 1, 1}, 2},
};

}  // namespace

Init parse_init(std::string_view name) {
  if (name == "he") return Init::he;
  if (name == "std001") return Init::std001;
  if (name == "default") return Init::usual;
  throw harness::bad_value("init", name, "allowed: he, std001, default");
}

Slice slice_of(Share share, std::size_t elements) {
  const auto begin = [&](std::size_t part) {
    return elements / share.of * part + elements % share.of * part / share.of;
  };
  return {begin(share.index), begin(share.index + 1) - begin(share.index)};
}

Model::Model(harness::Stream& stream, const ModelSettings& settings, const Shape& input)
    : stream_(stream), settings_(settings), input_(input) {
  if (settings.backend.empty()) settings_.backend = default_backend(stream.device());
  if (find_backend(settings_.backend).on_gpu != harness::is_gpu(stream.device())) {
    throw harness::bad_value("backend", settings_.backend,
                             "it does not compute on " + stream.device().name() +
                                 "; allowed there: " + std::string(default_backend(stream.device())));
  }
  if (settings.capacity < 1) throw harness::Error("a model needs room for at least one image");
  images_ = allocate(settings.capacity * input.size());
  memory_.push_back(stream.device().allocate(settings.capacity));
  labels_ = reinterpret_cast<std::uint8_t*>(memory_.back().data());
}

float* Model::allocate(std::size_t elements) {
  memory_.push_back(stream_.device().allocate(elements * sizeof(float)));
  return reinterpret_cast<float*>(memory_.back().data());
}

Model::Source Model::add(const std::string& name, const Shape& out, std::vector<Source> from, Make make) {
  layers_.push_back({name, out, std::move(from), std::move(make)});
  return here_ = layers() - 1;
}

void Model::add_parameter(const char* suffix, const std::vector<int>& shape, Role role, int fan_in) {
  const auto count = static_cast<std::size_t>(std::accumulate(shape.begin(), shape.end(), 1, std::multiplies<>()));
  layers_.back().parameters.push_back(static_cast<int>(parameters_.size()));
  parameters_.push_back({layers_.back().name + suffix, shape, here_, fan_in, role, count, 0, size_});
  size_ += count;
}

void Model::add_weight_and_bias(const std::vector<int>& weight_shape) {
  const int fan_in = std::accumulate(weight_shape.begin() + 1, weight_shape.end(), 1, std::multiplies<>());
  add_parameter(".weight", weight_shape, Role::weight, fan_in);
  add_parameter(".bias", {weight_shape[0]}, Role::bias, fan_in);
}

void Model::add_statistic(const char* suffix, int channels) {
  layers_.back().statistics.push_back(static_cast<int>(statistics_.size()));
  const auto count = static_cast<std::size_t>(channels);
  statistics_.push_back({layers_.back().name + suffix, here_, count, statistic_count_});
  statistic_count_ += count;
}

Model::Source Model::convolution(const std::string& name, int channels, const Window& window,
                                 std::optional<Source> from) {
  const Source source = from.value_or(here_);
  const Shape in = shape_of(source);
  add(name, {channels, window.outputs(in.height), window.outputs(in.width)}, {source},
      [this, channels, window](const Inputs& inputs, const Weights& weights) {
        return backend_->convolution(inputs[0], channels, window, weights);
      });
  add_weight_and_bias({channels, in.channels, window.kernel, window.kernel});
  return here_;
}

Model::Source Model::linear(const std::string& name, int features) {
  const auto in = static_cast<int>(shape().size());
  add(name, {features, 1, 1}, {here_}, [this, features](const Inputs& inputs, const Weights& weights) {
    return backend_->linear(inputs[0], features, weights);
  });
  add_weight_and_bias({features, in});
  return here_;
}

Model::Source Model::batch_norm(const std::string& name, bool relu) {
  const int channels = shape().channels;
  add(name, shape(), {here_}, [this, relu](const Inputs& inputs, const Weights& weights) {
    return backend_->batch_norm(inputs[0], relu, weights);
  });
  add_parameter(".weight", {channels}, Role::scale, 0);
  add_parameter(".bias", {channels}, Role::shift, 0);
  add_statistic(".running_mean", channels);
  add_statistic(".running_var", channels);
  return here_;
}

Model::Source Model::relu(const std::string& name) {
  return add(name, shape(), {here_},
             [this](const Inputs& inputs, const Weights&) { return backend_->relu(inputs[0]); });
}

Model::Source Model::branch(const std::string& name) {
  const Source before = here_;
  const Source result = add(name, shape(), {before},
                            [this](const Inputs& inputs, const Weights&) { return backend_->branch(inputs[0]); });
  here_ = before;
  return result;
}

Model::Source Model::residual_sum(const std::string& name, Source main, Source shortcut) {
  return add(name, shape_of(main), {main, shortcut},
             [this](const Inputs& inputs, const Weights&) { return backend_->residual_sum(inputs[0], inputs[1]); });
}

Model::Source Model::average_pool(const std::string& name, int side) {
  return add(name, {shape().channels, shape().height / side, shape().width / side}, {here_},
             [this, side](const Inputs& inputs, const Weights&) { return backend_->average_pool(inputs[0], side); });
}

void Model::complete() {
  add("cross_entropy", {}, {here_},
      [this](const Inputs& inputs, const Weights&) { return backend_->cross_entropy(inputs[0], labels_, *outcome_); });
  lay_out();
  draw();
  issue([this] { make_layers(); });
  stream_.sync();
}

// In the stream's order: run by its worker, or, for a GPU, called at once, since what it calls only issues.
void Model::issue(std::function<void()> work) {
  if (harness::is_gpu(stream_.device())) {
    work();
  } else {
    harness::run(stream_, std::move(work));
  }
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
  statistic_arena_ = allocate(statistic_count_);
  if (!settings_.momentum) return;
  momentum_slice_ = slice_of(settings_.momentum_share, size_);
  momentum_arena_ = allocate(momentum_slice_.count);
}

Weights Model::weights_of(const Named& layer) const {
  Weights weights;
  if (!layer.parameters.empty()) {
    const std::size_t weight = parameters_[layer.parameters[0]].offset;
    const std::size_t bias = parameters_[layer.parameters[1]].offset;
    weights = {parameter_arena_ + weight, parameter_arena_ + bias, gradient_arena_ + weight, gradient_arena_ + bias};
  }
  if (!layer.statistics.empty()) {
    weights.running_mean = statistic_arena_ + statistics_[layer.statistics[0]].offset;
    weights.running_variance = statistic_arena_ + statistics_[layer.statistics[1]].offset;
  }
  return weights;
}

void Model::make_layers() {
  backend_ = find_backend(settings_.backend).make({stream_, settings_.capacity, settings_.threads, settings_.math});
  outcome_ = backend_->make_outcome();
  if (momentum_slice_.count > 0) backend_->clear(momentum_arena_, momentum_slice_.count);
  const TensorPointer images = backend_->input(input_, images_);
  for (Named& layer : layers_) {
    Inputs inputs;
    for (const Source source : layer.from) {
      inputs.push_back(source == images_source ? images : layers_[source].layer->output());
    }
    layer.layer = layer.make(inputs, weights_of(layer));
  }
}

// Batch norm begins as the identity, whatever the initialiser, and with statistics of mean 0 and variance 1.
void Model::draw() {
  std::vector<float> parameters(size_), statistics(statistic_count_);
  for (const Parameter& parameter : parameters_) {
    const bool weight = parameter.role == Role::weight;
    const bool drawn = weight || parameter.role == Role::bias;
    double bound = 0;
    if (settings_.init == Init::usual && drawn) bound = 1 / std::sqrt(double(parameter.fan_in));
    if (settings_.init == Init::he && weight) bound = std::sqrt(2.0 / parameter.fan_in) * std::sqrt(3.0);
    if (settings_.init == Init::std001 && weight) bound = 0.01 * std::sqrt(3.0);
    for (std::size_t i = 0; i < parameter.count; ++i) {
      const float value = harness::uniform(settings_.seed + parameter.reference_offset + i, bound);
      parameters[parameter.offset + i] = parameter.role == Role::scale ? 1 : value;
    }
  }
  for (const Named& layer : layers_) {
    if (layer.statistics.empty()) continue;
    const Statistic& variance = statistics_[layer.statistics[1]];
    std::fill_n(statistics.begin() + static_cast<std::ptrdiff_t>(variance.offset), variance.count, 1.0F);
  }
  stream_.copy(parameters.data(), parameter_arena_, parameters.size() * sizeof(float));
  stream_.copy(statistics.data(), statistic_arena_, statistics.size() * sizeof(float));
  stream_.sync();
}

void Model::forward(int images) {
  for (int layer = 0; layer < layers(); ++layer) forward(layer, images);
}

void Model::forward(int layer, int images) {
  Named& named = layers_.at(layer);
  issue([this, &named, images] {
    if (images == 0) {
      *outcome_ = {};
    } else {
      named.layer->forward(images);
    }
  });
}

void Model::evaluate(int images) {
  issue([this, images] {
    *outcome_ = {};
    for (Named& named : layers_) {
      if (images > 0) named.layer->evaluate(images);
    }
  });
}

Slice Model::backward(int layer, int images, Gradients how) {
  Named& named = layers_.at(layer);
  const bool adds = how == Gradients::add;
  if (adds && !earlier_gradients_) earlier_gradients_ = allocate(size_);
  issue([this, &named, images, adds] {
    float* gradients = gradient_arena_ + named.slice.offset;
    if (images == 0) {
      if (!adds) backend_->clear(gradients, named.slice.count);
      return;
    }
    if (adds) backend_->copy(gradients, earlier_gradients_, named.slice.count);
    named.layer->backward(images);
    if (adds) backend_->add(earlier_gradients_, gradients, named.slice.count);
  });
  return named.slice;
}

void Model::step(const Sgd& how, Slice slice) {
  if (slice.count == 0) return;
  const Slice& kept = momentum_slice_;
  const bool moves = slice.offset >= kept.offset && slice.offset + slice.count <= kept.offset + kept.count;
  if (how.momentum != 0 && !moves) throw harness::Error("the replica has no memory for the momentum");
  issue([this, how, slice, moves] {
    backend_->step({parameter_arena_ + slice.offset, gradient_arena_ + slice.offset,
                    moves ? momentum_arena_ + (slice.offset - momentum_slice_.offset) : nullptr, slice.count},
                   how);
  });
}

std::vector<StateTensor> Model::state() const {
  std::vector<StateTensor> state;
  for (const Parameter& parameter : parameters_) {
    state.push_back({parameter.name, parameter.shape, {parameter_arena_ + parameter.offset, parameter.count}});
  }
  for (const Statistic& statistic : statistics_) {
    state.push_back(
        {statistic.name, {static_cast<int>(statistic.count)}, {statistic_arena_ + statistic.offset, statistic.count}});
  }
  if (momentum_slice_.count < size_) return state;
  for (StateTensor& tensor : momentum_tensors(momentum_arena_)) state.push_back(std::move(tensor));
  return state;
}

std::vector<StateTensor> Model::momentum_tensors(float* arena) const {
  std::vector<StateTensor> tensors;
  for (const Parameter& parameter : parameters_) {
    tensors.push_back(
        {"momentum_buffer." + parameter.name, parameter.shape, {arena + parameter.offset, parameter.count}});
  }
  return tensors;
}

std::span<const ModelRow> catalogue() { return rows; }

const ModelRow& find_model(std::string_view name) {
  std::string known;
  for (const auto& row : rows) {
    if (row.name == name) return row;
    known.append(known.empty() ? "" : ", ").append(row.name);
  }
  throw harness::bad_value("model", name, "this build has: " + known);
}

std::unique_ptr<Model> make_model(std::string_view name, harness::Stream& stream, const ModelSettings& settings) {
  return find_model(name).make(stream, settings);
}

}  // namespace models
