// SPDX-License-Identifier: Apache-2.0
// LeNet against PyTorch's numbers (golden/), on one device and on several that share the batch, by every backend.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "models/dataset.hpp"
#include "models/model.hpp"
#include "tests/models/backends.hpp"

namespace models {
namespace {

// Loops under the thread sanitizer are a hundred times slower: there the first steps have to do.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int most_steps = 1;
#else
constexpr int most_steps = 10;
#endif

nlohmann::json golden(const std::string& name) {
  std::ifstream file(std::string(RINGMARK_SOURCE_DIR "/tests/models/golden/") + name + ".json");
  return nlohmann::json::parse(file);
}

// `ranks` replicas on devices of their own, stepping through the training set in file order.
class Replicas {
 public:
  Replicas(const nlohmann::json& reference, const std::string& backend, int ranks)
      : devices_(harness::open_devices("cpu:" + std::to_string(ranks), {1, 300})),
        data_(load_fashion_mnist(Part::train)),
        sampler_(data_.size(), reference["batch"], ranks, Sampler::Order::sequential, 0),
        batch_(reference["batch"]),
        rate_(reference["lr"].get<float>() / reference["batch"].get<float>()) {
    ModelSettings settings;
    settings.backend = backend;
    settings.capacity = static_cast<int>(batch_) / ranks;
    settings.init = reference["init"] == "he" ? Init::he : Init::std001;
    settings.seed = reference["seed"];
    for (int rank = 0; rank < ranks; ++rank) {
      streams_.push_back((*devices_)[rank].make_stream());
      models_.push_back(make_lenet(*streams_.back(), settings));
    }
  }

  // Gives the mean loss over the global batch, before the update, and leaves the summed gradients on all replicas.
  double step(int number) {
    double loss = 0;
    correct = 0;
    for (std::size_t rank = 0; rank < models_.size(); ++rank) {
      Model& model = *models_[rank];
      const auto shard = sampler_.shard(0, number, static_cast<int>(rank));
      for (std::size_t i = 0; i < shard.size(); ++i) {
        data_.load(shard[i], model.images() + i * Dataset::pixels, model.labels() + i);
      }
      const int images = static_cast<int>(shard.size());
      model.forward(images);
      for (int layer = model.layers() - 1; layer >= 0; --layer) model.backward(layer, images);
    }
    for (std::size_t rank = 0; rank < models_.size(); ++rank) {
      streams_[rank]->sync();
      loss += models_[rank]->outcome().loss;
      correct += models_[rank]->outcome().correct;
      if (rank == 0) continue;
      for (std::size_t i = 0; i < models_[0]->size(); ++i) {
        models_[0]->gradients()[i] += models_[rank]->gradients()[i];
      }
    }
    for (std::size_t rank = 0; rank < models_.size(); ++rank) {
      std::copy_n(models_[0]->gradients(), models_[0]->size(), models_[rank]->gradients());
      models_[rank]->step(rate_);
      streams_[rank]->sync();
    }
    return loss / static_cast<double>(batch_);
  }

  Model& model() { return *models_[0]; }
  int correct = 0;

 private:
  std::unique_ptr<harness::Devices> devices_;
  Dataset data_;
  Sampler sampler_;
  std::size_t batch_;
  float rate_;
  std::vector<std::unique_ptr<harness::Stream>> streams_;
  std::vector<std::unique_ptr<Model>> models_;
};

void reproduce(const std::string& name, const std::string& backend, int ranks, int steps, double tolerance) {
  const auto reference = golden(name);
  Replicas replicas(reference, backend, ranks);
  for (int number = 0; number < steps; ++number) {
    const double expected = reference["loss_mean"][number];
    EXPECT_NEAR(replicas.step(number), expected, tolerance * expected)
        << name << " step " << number << " on " << ranks << " devices";
    EXPECT_NEAR(replicas.correct, reference["batch_correct"][number].get<int>(), number == 0 ? 0 : 1);
    if (number > 0) continue;
    for (const Parameter& parameter : replicas.model().parameter_table()) {
      double square = 0;
      for (std::size_t i = 0; i < parameter.count; ++i) {
        const double value = replicas.model().gradients()[parameter.offset + i];
        square += value * value;
      }
      const double norm = reference["gradient_l2_step0"].at(parameter.name);
      EXPECT_NEAR(std::sqrt(square), norm, 1e-4 * norm) << parameter.name;
    }
  }
}

class Lenet : public testing::TestWithParam<std::string> {};

TEST_P(Lenet, ReproducesTenStepsOfPyTorchOnOneTwoAndFourDevices) {
  for (const int ranks : {1, 2, 4}) reproduce("lenet_he_B64_lr0.1", GetParam(), ranks, most_steps, 1e-6);
}

TEST_P(Lenet, ReproducesALargerBatch) { reproduce("lenet_he_B256_lr0.1", GetParam(), 2, most_steps, 1e-4); }

TEST_P(Lenet, ReproducesTheOtherInitialiser) {
  reproduce("lenet_std001_B64_lr0.5", GetParam(), 1, std::min(most_steps, 2), 1e-6);
}

INSTANTIATE_TEST_SUITE_P(Backends, Lenet, testing::ValuesIn(available_backends()),
                         [](const auto& backend) { return backend.param; });

TEST(LenetModel, HasTheParametersOfThePaper) {
  const auto devices = harness::open_devices("cpu:1", {1, 60});
  const auto stream = (*devices)[0].make_stream();
  const auto model = make_lenet(*stream, {.capacity = 1});
  EXPECT_EQ(model->size(), 129068U);
  std::vector<std::string> names;
  std::size_t offset = 0;
  for (const Parameter& parameter : model->parameter_table()) {
    names.push_back(parameter.name);
    EXPECT_EQ(parameter.reference_offset, offset);
    offset += parameter.count;
  }
  EXPECT_EQ(names, (std::vector<std::string>{"conv1.weight", "conv1.bias", "conv2.weight", "conv2.bias", "fc1.weight",
                                             "fc1.bias", "fc2.weight", "fc2.bias"}));
}

TEST(LenetModel, BackwardFillsTheGradientArenaFromItsBeginning) {
  const auto devices = harness::open_devices("cpu:1", {1, 60});
  const auto stream = (*devices)[0].make_stream();
  const auto model = make_lenet(*stream, {.capacity = 2});
  std::fill_n(model->images(), 2 * Dataset::pixels, 0.5F);
  std::fill_n(model->labels(), 2, std::uint8_t{3});
  model->forward(2);
  std::size_t filled = 0;
  for (int layer = model->layers() - 1; layer >= 0; --layer) {
    const Slice slice = model->backward(layer, 2);
    EXPECT_EQ(slice.offset, filled);
    filled += slice.count;
    stream->sync();
    // What comes later is still as fresh memory is: not a number.
    if (filled < model->size()) {
      EXPECT_TRUE(std::isnan(model->gradients()[filled]));
    }
    for (std::size_t i = 0; i < filled; ++i) ASSERT_FALSE(std::isnan(model->gradients()[i]));
  }
  EXPECT_EQ(filled, model->size());
}

TEST(LenetModel, GradientsAreTheSlopesOfTheLoss) {
  const auto devices = harness::open_devices("cpu:1", {1, 60});
  const auto stream = (*devices)[0].make_stream();
  const auto model = make_lenet(*stream, {.capacity = 2, .seed = 5});
  const Dataset data = make_synthetic(2, 3);
  for (std::size_t i = 0; i < 2; ++i) data.load(i, model->images() + i * Dataset::pixels, model->labels() + i);
  const auto loss = [&] {
    model->forward(2);
    stream->sync();
    return model->outcome().loss;
  };
  loss();
  for (int layer = model->layers() - 1; layer >= 0; --layer) model->backward(layer, 2);
  stream->sync();
  for (const Parameter& parameter : model->parameter_table()) {
    // The element with the largest gradient, where a slope stands out of float's rounding.
    const float* gradients = model->gradients() + parameter.offset;
    const auto largest = std::max_element(gradients, gradients + parameter.count,
                                          [](float a, float b) { return std::abs(a) < std::abs(b); });
    float& value = model->parameters()[parameter.offset + (largest - gradients)];
    const float before = value;
    constexpr float change = 1e-3F;
    value = before + change;
    const double above = loss();
    value = before - change;
    const double below = loss();
    value = before;
    EXPECT_NEAR((above - below) / (2 * double{change}), *largest, 0.03 * std::abs(*largest) + 1e-3) << parameter.name;
  }
}

TEST(Models, UnknownNamesAreRefusedWithWhatThereIs) {
  const auto devices = harness::open_devices("cpu:1", {1, 60});
  const auto stream = (*devices)[0].make_stream();
  EXPECT_THROW(make_model("alexnet", *stream, {}), harness::UsageError);
  EXPECT_THROW(make_model("lenet", *stream, {.backend = "magic"}), harness::UsageError);
  EXPECT_THROW(make_model("lenet", *stream, {.capacity = 0}), harness::Error);
}

}  // namespace
}  // namespace models
