// SPDX-License-Identifier: Apache-2.0
// One replica of a network on one device. All its parameters lie in one arena and all its gradients in another of the
// same layout: in the order that backward fills it, last layer first, so that what is ready to be reduced is always a
// contiguous slice. Work is issued to the replica's stream and happens later, as with everything on a device.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "harness/device/device.hpp"
#include "models/backend.hpp"

namespace models {

enum class Init {
  he,      // uniform with the standard deviation sqrt(2 / fan_in), biases 0: He et al., "Delving Deep into Rectifiers"
           // (2015)
  std001,  // uniform with the standard deviation 0.01, biases 0
  usual    // PyTorch's for linear and convolution layers: uniform within 1/sqrt(fan_in), weights and biases
};

// "he", "std001" or "default". Throws harness::UsageError for another.
Init parse_init(std::string_view name);

struct ModelSettings {
  std::string backend = std::string(default_backend());
  int capacity = 256;  // images of the largest shard
  int threads = 1;     // that the backend computes with, on the stream's worker and beside it
  Init init = Init::he;
  std::uint64_t seed = 1;
};

class Model {
 public:
  // The stream must outlive the model. The parameters are drawn here. Throws harness::UsageError for a backend that
  // this build lacks.
  Model(harness::Stream& stream, const ModelSettings& settings);
  virtual ~Model() = default;
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  // Where the next batch belongs: images [capacity][1][28][28] in 0 to 1, and labels 0 to 9.
  float* images() const { return images_; }
  std::uint8_t* labels() const { return labels_; }

  int layers() const { return static_cast<int>(layers_.size()); }
  const std::string& layer_name(int layer) const { return layers_.at(layer).name; }
  const Shape& layer_shape(int layer) const { return layers_.at(layer).shape; }  // of what it puts out

  // Over the first `images` of the batch, from none to the capacity. The outcome may be read after the stream was
  // synced.
  void forward(int images);
  // One layer's; call from the first to the last, to see them one by one.
  void forward(int layer, int images);
  // One layer's; call from the last to the first. Gives the slice of the gradients that is final after it (empty for a
  // layer without parameters). Gradients are of the loss summed over the shard.
  Slice backward(int layer, int images);
  // parameters -= rate * gradients. The rate is the learning rate over the global batch.
  void step(float rate);
  const Outcome& outcome() const { return outcome_; }

  // In state_dict order.
  const std::vector<Parameter>& parameter_table() const { return parameters_; }
  float* parameters() const { return parameter_arena_; }
  float* gradients() const { return gradient_arena_; }
  std::size_t size() const { return size_; }  // elements of an arena

 protected:
  // For the constructors of networks, which call these in forward order and then `complete`.
  void convolution(const std::string& name, int channels, int kernel);
  void relu(const std::string& name);
  void average_pool(const std::string& name);
  void linear(const std::string& name, int features);
  void complete();

 private:
  using Make = std::function<LayerPointer(const TensorPointer& in, const Weights&)>;
  struct Named {
    std::string name;
    Shape shape;
    Make make;
    std::vector<int> parameters = {};  // indices: weight, bias
    LayerPointer layer = nullptr;
    Slice slice = {};
  };
  void add(const std::string& name, const Shape& out, Make make);
  void add_with_parameters(const std::string& name, std::vector<int> weight_shape, const Shape& out, Make make);
  float* allocate(std::size_t elements);
  void lay_out();
  void draw();
  void make_layers();

  harness::Stream& stream_;
  ModelSettings settings_;
  std::unique_ptr<Backend> backend_;
  std::vector<harness::Buffer> memory_;
  std::vector<Named> layers_;
  std::vector<Parameter> parameters_;
  Shape shape_;  // of what the last layer so far puts out
  float* images_ = nullptr;
  std::uint8_t* labels_ = nullptr;
  float* parameter_arena_ = nullptr;
  float* gradient_arena_ = nullptr;
  std::size_t size_ = 0;
  Outcome outcome_;
};

struct ModelRow {
  std::string_view name;
  std::string_view summary;
  std::unique_ptr<Model> (*make)(harness::Stream&, const ModelSettings&);
};

std::span<const ModelRow> catalogue();

// Throws harness::UsageError for a name that the catalogue lacks.
std::unique_ptr<Model> make_model(std::string_view name, harness::Stream& stream, const ModelSettings& settings);

// conv 3x3 1->20, relu, pool, conv 5x5 20->50, relu, pool, linear 800->128, relu, linear 128->10: the LeNet of the
// textbook "Dive into Deep Learning" (Zhang et al. 2021), section on training on multiple GPUs, after LeCun et al.
// 1998.
std::unique_ptr<Model> make_lenet(harness::Stream& stream, const ModelSettings& settings);

}  // namespace models
