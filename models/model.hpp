// SPDX-License-Identifier: Apache-2.0
// One replica of a network on one device. All its parameters lie in one arena and all its gradients in another of the
// same layout: in the order that backward fills it, last layer first, so that what is ready to be reduced is always a
// contiguous slice. Work is issued to the replica's stream and happens later, as with everything on a device.
#pragma once

#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/device/device.hpp"
#include "models/backend.hpp"
#include "models/bucket.hpp"

namespace models {

enum class Init {
  he,      // uniform with the standard deviation sqrt(2 / fan_in), biases 0: He et al., "Delving Deep into Rectifiers"
           // (2015)
  std001,  // uniform with the standard deviation 0.01, biases 0
  usual    // PyTorch's for linear and convolution layers: uniform within 1/sqrt(fan_in), weights and biases
};

// "he", "std001" or "default". Throws harness::UsageError for another.
Init parse_init(std::string_view name);

// Layers that follow each other: from `first` up to the one before `end`.
struct Stage {
  int first = 0;
  int end = std::numeric_limits<int>::max();  // at most the number of layers
  friend bool operator==(const Stage&, const Stage&) = default;
};

struct ModelSettings {
  std::string backend = {};  // by default the fastest for the stream's device
  int capacity = 256;        // images of the largest shard
  int threads = 1;           // that the backend computes with, on the stream's worker and beside it
  Init init = Init::he;
  std::uint64_t seed = 1;
  bool momentum = false;      // whether the replica has memory for it...
  Share momentum_share = {};  // ...and for which part of each bucket; it then updates no other
  BucketSizes buckets = one_bucket;
  Math math = Math::f32;
  Stage stage = {};     // the layers that are here, with their parameters; the others are on other devices
  Share features = {};  // of linear layers, where devices share these out
  int parts = 1;        // batches whose activations are there at once, each of up to `capacity` images
};

// How a linear layer is shared out, when it is: by what it puts out, or by what it reads. Two layers in a row, the
// first by outputs and the next by inputs, need no communication between them.
enum class Split { outputs, inputs };

// Layers that are shared out: what the last one puts out, and the gradient of what the first one reads, are the sums
// over all devices of what these have computed.
struct Shared {
  int first = 0, last = 0;
};

// Whether backward replaces the gradients or adds to them: the latter for all but the first part of a batch that a
// replica takes in several.
enum class Gradients { replace, add };

// A tensor of what training changes, under its name in PyTorch's state_dict; momentum, which PyTorch keeps apart, is
// "momentum_buffer." and the name of its parameter. The values are the device's: of a tensor that devices share out,
// those of its part.
struct StateTensor {
  std::string name;
  std::vector<int> shape;  // of all of it
  std::span<float> values;
  Cut cut = {};
};

class Model {
 public:
  // The stream must outlive the model. The parameters are drawn here. Throws harness::UsageError for a backend that
  // this build lacks, or that cannot compute on the stream's device.
  Model(harness::Stream& stream, const ModelSettings& settings, const Shape& input = {1, 28, 28});
  virtual ~Model() = default;
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  // Where the next batch belongs: images [capacity] of the input's shape, in 0 to 1, and their labels, from 0. A model
  // that keeps several has memory for each part.
  float* images(int part = 0) const { return images_ + std::size_t(part) * settings_.capacity * input_.size(); }
  std::uint8_t* labels(int part = 0) const { return labels_ + std::size_t(part) * settings_.capacity; }
  const Shape& input() const { return input_; }

  // Of the whole network, whatever of it is here.
  int layers() const { return static_cast<int>(layers_.size()); }
  const std::string& layer_name(int layer) const { return layers_.at(layer).name; }
  const Shape& layer_shape(int layer) const { return layers_.at(layer).shape; }  // of what it puts out
  // Those that are here.
  const Stage& stage() const { return settings_.stage; }
  // The layers that a stage can begin with: all that it reads from earlier ones is what one layer puts out.
  std::vector<int> beginnings() const;
  const std::vector<Shared>& shared() const { return shared_; }

  // Over the first `images` of the batch, from none to the capacity. The outcome may be read after the stream was
  // synced.
  void forward(int images);
  // One layer's; call from the first to the last that is here, to see them one by one.
  void forward(int layer, int images, int part = 0);
  // Forward as after training: with the running statistics instead of the batch's. No backward may follow. A stage of a
  // network, or a share of one, has no evaluation.
  void evaluate(int images);
  // One layer's; call from the last to the first. Gives the slice of the gradients that is final after it (empty for a
  // layer without parameters). Gradients are of the loss summed over the shard.
  Slice backward(int layer, int images, Gradients how = Gradients::replace, int part = 0);
  // Updates the parameters, or those of a slice. Throws harness::Error for a momentum that the replica has no memory
  // for.
  void step(const Sgd& how) { step(how, {0, size_}); }
  void step(const Sgd& how, Slice slice);
  const Outcome& outcome(int part = 0) const { return *outcomes_[part]; }
  // Where the values that a layer puts out, and their gradients, lie; the last layer but one puts out the logits.
  Extent output(int layer) const { return layers_.at(layer).made[0]->output()->extent(); }
  Extent input_of(int layer) const;  // of what a layer reads; no gradients for the images
  // Where lies what a stage reads from the one before, and what it puts out for the next: rows [image] in the memory
  // order of images, of shapes that are equal on both sides.
  const Extent& inlet(int part = 0) const { return inlets_.at(part); }
  Extent outlet(int part = 0) const { return outlets_.at(part)->output()->extent(); }
  const Shape& outlet_shape() const { return outlets_.at(0)->output()->shape; }

  // What is here, in state_dict order.
  const std::vector<Parameter>& parameter_table() const { return parameters_; }
  const std::vector<Statistic>& statistic_table() const { return statistics_; }
  float* parameters() const { return parameter_arena_; }
  float* gradients() const { return gradient_arena_; }
  std::size_t size() const { return size_; }              // elements of an arena of parameters or gradients
  std::size_t whole_size() const { return whole_size_; }  // and of all the network's parameters
  // Running statistics of all batch norms, one after the other; empty where there are none.
  std::span<float> statistics() const { return {statistic_arena_, statistic_count_}; }
  // The parts of the parameters that the replica has momentum for, and that momentum, one part after the other; both
  // empty where it has none.
  const std::vector<Slice>& momentum_slices() const { return momentum_slices_; }
  std::span<float> momentum() const { return {momentum_arena_, momentum_count_}; }
  // All that training changes here: parameters, statistics, and their momentum where the replica has all of it.
  std::vector<StateTensor> state() const;
  // The momentum of all parameters, where somebody put it together in the order of the arena.
  std::vector<StateTensor> momentum_tensors(float* arena) const;
  harness::Stream& stream() const { return stream_; }

 protected:
  // What a layer puts out: its index in the model.
  using Source = int;
  static constexpr Source images_source = -1;

  // For the constructors of networks, which call these in forward order and then `complete`. Each layer reads what the
  // last one put out, unless another source is given, and is a source itself. A branch is a source for later; the next
  // layer reads on where it would have without.
  Source convolution(const std::string& name, int channels, const Window&, std::optional<Source> from = {});
  Source batch_norm(const std::string& name, bool relu);
  Source relu(const std::string& name);
  Source average_pool(const std::string& name, int side);
  Source linear(const std::string& name, int features, Split split = Split::inputs);
  Source branch(const std::string& name);
  Source residual_sum(const std::string& name, Source main, Source shortcut);
  const Shape& shape() const { return shape_of(here_); }  // of what the next layer reads
  void complete();

 private:
  using Inputs = std::vector<TensorPointer>;
  using Make = std::function<LayerPointer(const Inputs& in, const Weights&)>;
  struct Named {
    std::string name;
    Shape shape;
    std::vector<Source> from;
    Make make;
    std::vector<int> parameters = {};     // indices: weight and bias, or scale and shift
    std::vector<int> statistics = {};     // indices: running mean, running variance
    std::vector<LayerPointer> made = {};  // one a part; none where the layer is on another device
    Slice slice = {};
    bool begins = false;  // what it reads may be in any order of memory: it can be the first of a stage
  };
  const Shape& shape_of(Source source) const { return source == images_source ? input_ : layer_shape(source); }
  Source add(const std::string& name, const Shape& out, std::vector<Source> from, Make make);
  bool is_here(int layer) const { return layer >= settings_.stage.first && layer < settings_.stage.end; }
  // The one source that this layer and later ones read of those before it; none where there are several.
  std::optional<Source> entrance(int layer) const;
  // The stage's outlet, where this is its last layer.
  Layer* outlet_after(int layer, int part) const;
  // To the layer added last; of a parameter that is shared out, `count` elements are here.
  void add_parameter(const char* suffix, const std::vector<int>& shape, Role role, int fan_in);
  void add_parameter(const char* suffix, const std::vector<int>& shape, Role role, int fan_in, const Cut& cut,
                     std::size_t count);
  void add_weight_and_bias(const std::vector<int>& weight_shape);
  void add_statistic(const char* suffix, int channels);
  float* allocate(std::size_t elements);
  Weights weights_of(const Named& layer) const;
  void lay_out();
  void draw();
  void make_layers();
  void make_part(int part);
  // Null where the replica has no memory for all of it.
  float* momentum_of(Slice slice) const;

  harness::Stream& stream_;
  ModelSettings settings_;
  std::unique_ptr<Backend> backend_;
  std::vector<harness::Buffer> memory_;
  std::vector<Named> layers_;
  std::vector<Parameter> parameters_;
  std::vector<Statistic> statistics_;
  Shape input_;
  Source here_ = images_source;  // what the next layer reads
  float* images_ = nullptr;
  std::uint8_t* labels_ = nullptr;
  float* parameter_arena_ = nullptr;
  float* gradient_arena_ = nullptr;
  float* statistic_arena_ = nullptr;
  float* momentum_arena_ = nullptr;  // of momentum_slices_ alone
  std::vector<Slice> momentum_slices_;
  std::size_t momentum_count_ = 0;
  float* earlier_gradients_ = nullptr;  // while backward adds to them
  std::size_t size_ = 0, whole_size_ = 0;
  std::size_t statistic_count_ = 0;
  std::vector<Shared> shared_;
  Slice features_ = {};             // of what `here_` puts out, where it is shared out...
  std::size_t whole_features_ = 0;  // ...of so many
  float* no_bias_ = nullptr;  // zeros, for a linear layer whose bias is on another device; then room for a gradient
  std::size_t no_bias_count_ = 0;
  std::vector<std::shared_ptr<Outcome>> outcomes_;  // this and the next two: one a part
  std::vector<Extent> inlets_;
  std::vector<LayerPointer> outlets_;
};

struct ModelRow {
  std::string_view name;
  std::string_view summary;
  std::unique_ptr<Model> (*make)(harness::Stream&, const ModelSettings&);
  Shape input = {1, 28, 28};
  int classes = 10;
};

std::span<const ModelRow> catalogue();

// Both throw harness::UsageError for a name that the catalogue lacks.
const ModelRow& find_model(std::string_view name);
std::unique_ptr<Model> make_model(std::string_view name, harness::Stream& stream, const ModelSettings& settings);

// conv 3x3 1->20, relu, pool, conv 5x5 20->50, relu, pool, linear 800->128, relu, linear 128->10: the LeNet of the
// textbook "Dive into Deep Learning" (Zhang et al. 2021), section on training on multiple GPUs, after LeCun et al.
// 1998.
std::unique_ptr<Model> make_lenet(harness::Stream& stream, const ModelSettings& settings);

// Four stages of 64, 128, 256 and 512 channels with two residual blocks each, for images of 28x28: the ResNet-18 of the
// same book, after He et al., "Deep Residual Learning for Image Recognition" (2015). Its first convolution is 3x3 and
// no pooling follows, so that the stages see 28, 14, 7 and 4 pixels a side.
std::unique_ptr<Model> make_resnet18(harness::Stream& stream, const ModelSettings& settings);

// linear 10->2, on ten numbers instead of an image: the smallest model, where communication is everything.
std::unique_ptr<Model> make_mlp(harness::Stream& stream, const ModelSettings& settings);

}  // namespace models
