// SPDX-License-Identifier: Apache-2.0
#include "models/model.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numeric>

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

Model::Model(harness::Stream& stream, const ModelSettings& settings, const Shape& input)
    : stream_(stream), settings_(settings), input_(input) {
  if (settings.backend.empty()) settings_.backend = default_backend(stream.device());
  if (find_backend(settings_.backend).on_gpu != harness::is_gpu(stream.device())) {
    throw harness::bad_value("backend", settings_.backend,
                             "it does not compute on " + stream.device().name() +
                                 "; allowed there: " + std::string(default_backend(stream.device())));
  }
  if (settings.capacity < 1) throw harness::Error("a model needs room for at least one image");
  const std::size_t images = std::size_t(settings.capacity) * settings.parts;
  if (is_here(0)) images_ = allocate(images * input.size());
  memory_.push_back(stream.device().allocate(images));
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
  add_parameter(suffix, shape, role, fan_in, {}, elements_of(shape));
}

void Model::add_parameter(const char* suffix, const std::vector<int>& shape, Role role, int fan_in, const Cut& cut,
                          std::size_t count) {
  const std::size_t before = whole_size_;
  whole_size_ += elements_of(shape);
  if (!is_here(here_) || count == 0) return;
  layers_.back().parameters.push_back(static_cast<int>(parameters_.size()));
  parameters_.push_back(
      {layers_.back().name + suffix, shape, here_, fan_in, role, count, 0, before, cut, count == elements_of(shape)});
  size_ += count;
}

void Model::add_weight_and_bias(const std::vector<int>& weight_shape) {
  const int fan_in = std::accumulate(weight_shape.begin() + 1, weight_shape.end(), 1, std::multiplies<>());
  add_parameter(".weight", weight_shape, Role::weight, fan_in);
  add_parameter(".bias", {weight_shape[0]}, Role::bias, fan_in);
}

void Model::add_statistic(const char* suffix, int channels) {
  if (!is_here(here_)) return;
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
  layers_.back().begins = true;
  add_weight_and_bias({channels, in.channels, window.kernel, window.kernel});
  return here_;
}

// Shazeer et al., "Mesh-TensorFlow" (2018), and Shoeybi et al., "Megatron-LM: Training Multi-Billion Parameter Language
// Models Using Model Parallelism" (2019): columns of one matrix, then rows of the next.
Model::Source Model::linear(const std::string& name, int features, Split split) {
  const Share& share = settings_.features;
  const auto own = [&](std::size_t count) {
    const Slice slice = slice_of(share, count);
    if (slice.count > 0) return slice;
    throw harness::Error(name + " has " + std::to_string(count) +
                         " features to share out, which is less than one for each of " + std::to_string(share.of) +
                         " devices");
  };
  const bool is_shared = features_.count > 0;  // what it reads
  Slice inputs{0, shape().size()}, outputs{0, std::size_t(features)};
  std::size_t in = inputs.count;
  if (share.of > 1 && split == Split::outputs) {
    outputs = own(features);
    shared_.push_back({layers(), layers()});
  } else if (share.of > 1 && is_shared) {
    inputs = features_;
    in = whole_features_;
  } else if (share.of > 1) {
    const std::size_t channels = shape().channels, pixels = shape().pixels();
    const Slice part = own(channels);
    inputs = {part.offset * pixels, part.count * pixels};
    shared_.push_back({layers(), layers()});
    add(name + ".inputs", {static_cast<int>(part.count), shape().height, shape().width}, {here_},
        [this, part](const Inputs& from, const Weights&) { return backend_->outlet(from[0], part); });
  }
  add(name, {static_cast<int>(outputs.count), 1, 1}, {here_},
      [this, count = static_cast<int>(outputs.count)](const Inputs& from, const Weights& weights) {
        return backend_->linear(from[0], count, weights);
      });
  layers_.back().begins = true;
  if (share.of > 1) shared_.back().last = here_;
  const bool opens = share.of > 1 && split == Split::outputs;
  features_ = opens ? outputs : Slice{};
  whole_features_ = features;
  const bool has_bias = opens || share.index == 0;  // a sum has it once
  if (!has_bias) no_bias_count_ = std::max(no_bias_count_, outputs.count);
  const int fan_in = static_cast<int>(in);
  add_parameter(".weight", {features, fan_in}, Role::weight, fan_in,
                {outputs.offset * in + inputs.offset, inputs.count, in}, outputs.count * inputs.count);
  add_parameter(".bias", {features}, Role::bias, fan_in, {outputs.offset}, has_bias ? outputs.count : 0);
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
  layers_.back().begins = true;
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

std::optional<Model::Source> Model::entrance(int layer) const {
  std::optional<Source> only;
  for (int reader = layer; reader < layers(); ++reader) {
    for (const Source source : layers_[reader].from) {
      if (source >= layer) continue;
      if (only.value_or(source) != source) return std::nullopt;
      only = source;
    }
  }
  return only;
}

std::vector<int> Model::beginnings() const {
  std::vector<int> found = {0};
  for (int layer = 1; layer < layers(); ++layer) {
    if (layers_[layer].begins && entrance(layer)) found.push_back(layer);
  }
  return found;
}

void Model::complete() {
  add("cross_entropy", {}, {here_}, nullptr);
  settings_.stage.end = std::min(settings_.stage.end, layers());
  for (const int border : {settings_.stage.first, settings_.stage.end}) {
    const auto all = beginnings();
    if (border == layers() || std::find(all.begin(), all.end(), border) != all.end()) continue;
    throw harness::Error("no stage of the network can begin with " + layer_name(border));
  }
  lay_out();
  draw();
  models::issue(stream_, [this] { make_layers(); });
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
  statistic_arena_ = allocate(statistic_count_);
  if (no_bias_count_ > 0) no_bias_ = allocate(2 * no_bias_count_);
  if (!settings_.momentum) return;
  for (const Bucket& bucket : buckets(parameters_, settings_.buckets)) {
    const Slice part = slice_of(settings_.momentum_share, bucket.slice.count);
    if (part.count == 0) continue;
    momentum_slices_.push_back({bucket.slice.offset + part.offset, part.count});
    momentum_count_ += part.count;
  }
  momentum_arena_ = allocate(momentum_count_);
}

Weights Model::weights_of(const Named& layer) const {
  Weights weights;
  if (!layer.parameters.empty()) {
    const std::size_t weight = parameters_[layer.parameters[0]].offset;
    weights = {parameter_arena_ + weight, no_bias_, gradient_arena_ + weight, no_bias_ + no_bias_count_};
  }
  if (layer.parameters.size() > 1) {
    const std::size_t bias = parameters_[layer.parameters[1]].offset;
    weights.bias = parameter_arena_ + bias;
    weights.bias_gradient = gradient_arena_ + bias;
  }
  if (!layer.statistics.empty()) {
    weights.running_mean = statistic_arena_ + statistics_[layer.statistics[0]].offset;
    weights.running_variance = statistic_arena_ + statistics_[layer.statistics[1]].offset;
  }
  return weights;
}

void Model::make_layers() {
  backend_ = find_backend(settings_.backend).make({stream_, settings_.capacity, settings_.threads, settings_.math});
  if (momentum_count_ > 0) backend_->clear(momentum_arena_, momentum_count_);
  if (no_bias_) backend_->clear(no_bias_, no_bias_count_);
  for (int part = 0; part < settings_.parts; ++part) make_part(part);
}

void Model::make_part(int part) {
  outcomes_.push_back(backend_->make_outcome());
  const auto& [first, end] = settings_.stage;
  const Source outside = first == 0 ? images_source : *entrance(first);
  TensorPointer inlet;
  if (first == 0) {
    inlet = backend_->input(input_, images(part));
  } else {
    const std::size_t elements = settings_.capacity * shape_of(outside).size();
    float* values = allocate(elements);
    inlets_.push_back({values, allocate(elements), elements * sizeof(float)});
    inlet = backend_->input(shape_of(outside), values, inlets_.back().gradients);
  }
  const auto tensor = [&](Source source) { return source == outside ? inlet : layers_[source].made[part]->output(); };
  for (int number = first; number < end; ++number) {
    Named& layer = layers_[number];
    Inputs inputs;
    for (const Source source : layer.from) inputs.push_back(tensor(source));
    layer.made.push_back(layer.make ? layer.make(inputs, weights_of(layer))
                                    : backend_->cross_entropy(inputs[0], labels(part), *outcomes_[part]));
  }
  if (end == layers()) return;
  const Source last = *entrance(end);
  const auto channels = static_cast<std::size_t>(shape_of(last).channels);
  outlets_.push_back(backend_->outlet(tensor(last), {0, channels}));
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
      const float value =
          harness::uniform(settings_.seed + parameter.reference_offset + parameter.cut.in_whole(i), bound);
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
  for (int layer = settings_.stage.first; layer < settings_.stage.end; ++layer) forward(layer, images);
}

void Model::forward(int layer, int images, int part) {
  Layer& made = *layers_.at(layer).made.at(part);
  Layer* outlet = outlet_after(layer, part);
  models::issue(stream_, [this, &made, outlet, images, part] {
    if (images == 0) {
      *outcomes_[part] = {};
      return;
    }
    made.forward(images);
    if (outlet) outlet->forward(images);
  });
}

void Model::evaluate(int images) {
  models::issue(stream_, [this, images] {
    *outcomes_[0] = {};
    for (Named& named : layers_) {
      if (images > 0) named.made.at(0)->evaluate(images);
    }
  });
}

Layer* Model::outlet_after(int layer, int part) const {
  return layer + 1 == settings_.stage.end && !outlets_.empty() ? outlets_[part].get() : nullptr;
}

Extent Model::input_of(int layer) const {
  const Source source = layers_.at(layer).from[0];
  return source == images_source ? Extent{images()} : output(source);
}

Slice Model::backward(int layer, int images, Gradients how, int part) {
  Named& named = layers_.at(layer);
  const bool adds = how == Gradients::add;
  if (adds && !earlier_gradients_) earlier_gradients_ = allocate(size_);
  Layer& made = *named.made.at(part);
  Layer* outlet = outlet_after(layer, part);
  models::issue(stream_, [this, &named, &made, outlet, images, adds] {
    float* gradients = gradient_arena_ + named.slice.offset;
    if (images == 0) {
      if (!adds) backend_->clear(gradients, named.slice.count);
      return;
    }
    if (adds) backend_->copy(gradients, earlier_gradients_, named.slice.count);
    if (outlet) outlet->backward(images);
    made.backward(images);
    if (adds) backend_->add(earlier_gradients_, gradients, named.slice.count);
  });
  return named.slice;
}

float* Model::momentum_of(Slice slice) const {
  float* momentum = momentum_arena_;
  for (const Slice& kept : momentum_slices_) {
    if (slice.offset >= kept.offset && slice.offset + slice.count <= kept.offset + kept.count) {
      return momentum + (slice.offset - kept.offset);
    }
    momentum += kept.count;
  }
  return nullptr;
}

void Model::step(const Sgd& how, Slice slice) {
  if (slice.count == 0) return;
  float* momentum = momentum_of(slice);
  if (how.momentum != 0 && !momentum) throw harness::Error("the replica has no memory for the momentum");
  models::issue(stream_, [this, how, slice, momentum] {
    backend_->step({parameter_arena_ + slice.offset, gradient_arena_ + slice.offset, momentum, slice.count}, how);
  });
}

std::vector<StateTensor> Model::state() const {
  std::vector<StateTensor> state;
  for (const Parameter& parameter : parameters_) {
    state.push_back(
        {parameter.name, parameter.shape, {parameter_arena_ + parameter.offset, parameter.count}, parameter.cut});
  }
  for (const Statistic& statistic : statistics_) {
    state.push_back(
        {statistic.name, {static_cast<int>(statistic.count)}, {statistic_arena_ + statistic.offset, statistic.count}});
  }
  if (momentum_count_ < size_) return state;
  for (StateTensor& tensor : momentum_tensors(momentum_arena_)) state.push_back(std::move(tensor));
  return state;
}

std::vector<StateTensor> Model::momentum_tensors(float* arena) const {
  std::vector<StateTensor> tensors;
  for (const Parameter& parameter : parameters_) {
    tensors.push_back({"momentum_buffer." + parameter.name,
                       parameter.shape,
                       {arena + parameter.offset, parameter.count},
                       parameter.cut});
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
