// SPDX-License-Identifier: Apache-2.0
// LeNet against PyTorch's numbers (golden/), on one device and on several that share the batch, by every backend.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "models/dataset.hpp"
#include "models/model.hpp"
#include "tests/models/backends.hpp"
#include "tests/models/golden.hpp"
#include "tests/sanitized.hpp"

namespace models {
namespace {

// Loops under the thread sanitizer are a hundred times slower: there the first steps have to do.
constexpr int most_steps = sanitized ? 1 : 10;

class Lenet : public testing::TestWithParam<std::string> {};

TEST_P(Lenet, ReproducesTenStepsOfPyTorchOnOneTwoAndFourDevices) {
  for (const int ranks : {1, 2, 4})
    reproduce("lenet", "lenet_he_B64_lr0.1", GetParam(), ranks, most_steps, {1e-6, 1e-4});
}

TEST_P(Lenet, ReproducesALargerBatch) {
  reproduce("lenet", "lenet_he_B256_lr0.1", GetParam(), 2, most_steps, {1e-4, 1e-4});
}

TEST_P(Lenet, ReproducesTheOtherInitialiser) {
  reproduce("lenet", "lenet_std001_B64_lr0.5", GetParam(), 1, std::min(most_steps, 2), {1e-6, 1e-4});
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
