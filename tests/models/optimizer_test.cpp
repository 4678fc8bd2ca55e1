// SPDX-License-Identifier: Apache-2.0
// Updates and accumulated gradients against the formulas, computed here in double.
#include <gtest/gtest.h>

#include <cmath>

#include "models/dataset.hpp"
#include "models/model.hpp"

namespace models {
namespace {

class Optimizer : public testing::Test {
 protected:
  std::unique_ptr<Model> mlp(bool momentum, int capacity = 8, Share share = {}) {
    auto model = make_mlp(
        *stream_, {.backend = "plain", .capacity = capacity, .seed = 3, .momentum = momentum, .momentum_share = share});
    for (int i = 0; i < capacity; ++i) data_.load(i, model->images() + i * data_.image_size, model->labels() + i);
    return model;
  }
  void run(Model& model, int images, Gradients how = Gradients::replace) {
    model.forward(images);
    for (int layer = model.layers() - 1; layer >= 0; --layer) model.backward(layer, images, how);
    stream_->sync();
  }
  static std::vector<double> copy(const float* values, std::size_t count) { return {values, values + count}; }

  // Three steps by the model, and by the formula of PyTorch's documentation of SGD from the same gradients.
  void compare(const Sgd& how) {
    const auto model = mlp(how.momentum != 0);
    std::vector<double> p = copy(model->parameters(), model->size()), v(p.size());
    for (int step = 0; step < 3; ++step) {
      run(*model, 8);
      for (std::size_t i = 0; i < p.size(); ++i) {
        const double g = model->gradients()[i] / static_cast<double>(how.images) + how.weight_decay * p[i];
        v[i] = step == 0 ? g : how.momentum * v[i] + g;
        p[i] -= how.lr * v[i];
      }
      model->step(how);
      stream_->sync();
      for (std::size_t i = 0; i < p.size(); ++i) {
        ASSERT_NEAR(model->parameters()[i], p[i], 1e-6 * std::abs(p[i]) + 1e-7) << "step " << step << " element " << i;
      }
    }
  }

  std::unique_ptr<harness::Devices> devices_ = harness::open_devices("cpu:1", {1, 60});
  std::unique_ptr<harness::Stream> stream_ = (*devices_)[0].make_stream();
  Dataset data_ = make_synthetic(8, 3, find_model("mlp").input, find_model("mlp").classes);
};

TEST_F(Optimizer, FollowsTheFormulaOfPyTorch) {
  compare({.lr = 0.3, .images = 8});
  compare({.lr = 0.3, .images = 8, .momentum = 0.9});
  compare({.lr = 0.3, .images = 8, .weight_decay = 0.05});
  compare({.lr = 0.3, .images = 8, .momentum = 0.9, .weight_decay = 0.05});
}

TEST_F(Optimizer, UpdatesASliceAlone) {
  const auto whole = mlp(true), parts = mlp(true), one = mlp(true);
  const Sgd how{.lr = 0.3, .images = 8, .momentum = 0.9, .weight_decay = 0.05};
  const std::size_t size = whole->size();
  for (Model* model : {whole.get(), parts.get(), one.get()}) run(*model, 8);
  const std::vector<double> before = copy(one->parameters(), size);
  whole->step(how);
  parts->step(how, {0, 7});
  parts->step(how, {7, size - 7});
  one->step(how, {5, 3});
  stream_->sync();
  EXPECT_EQ(copy(parts->parameters(), size), copy(whole->parameters(), size));
  for (std::size_t i = 0; i < size; ++i) {
    EXPECT_EQ(one->parameters()[i], i < 5 || i >= 8 ? before[i] : whole->parameters()[i]) << i;
  }
}

TEST_F(Optimizer, RefusesMomentumWithoutMemoryForIt) {
  const auto model = mlp(false), part = mlp(true, 8, {1, 3});
  EXPECT_THROW(model->step({.momentum = 0.9}), harness::Error);
  EXPECT_THROW(part->step({.momentum = 0.9}), harness::Error);
}

TEST_F(Optimizer, UpdatesItsShareAsAReplicaWithAllMomentumDoes) {
  const auto whole = mlp(true);
  std::vector<std::unique_ptr<Model>> shares;
  for (int index = 0; index < 3; ++index) shares.push_back(mlp(true, 8, {index, 3}));
  const Sgd how{.lr = 0.3, .images = 8, .momentum = 0.9, .weight_decay = 0.05};
  std::size_t end = 0;
  for (const auto& share : shares) {
    ASSERT_EQ(share->momentum_slices().size(), 1U);
    const Slice slice = share->momentum_slices()[0];
    EXPECT_EQ(slice.offset, end);
    EXPECT_NEAR(static_cast<double>(slice.count), static_cast<double>(whole->size()) / 3, 1);
    EXPECT_EQ(share->momentum().size(), slice.count);
    EXPECT_EQ(share->state().size(), share->parameter_table().size());
    end += slice.count;
  }
  EXPECT_EQ(end, whole->size());
  for (int step = 0; step < 3; ++step) {
    run(*whole, 8);
    whole->step(how);
    stream_->sync();
    for (const auto& share : shares) {
      const Slice slice = share->momentum_slices()[0];
      std::copy_n(whole->gradients(), whole->size(), share->gradients());
      share->step(how, slice);
      stream_->sync();
      EXPECT_EQ(copy(share->parameters() + slice.offset, slice.count),
                copy(whole->parameters() + slice.offset, slice.count));
      EXPECT_EQ(copy(share->momentum().data(), slice.count),
                copy(whole->momentum().data() + slice.offset, slice.count));
    }
  }
}

TEST_F(Optimizer, SharesOutTheMomentumOfEachBucket) {
  const auto whole = mlp(true);
  ModelSettings settings{.backend = "plain", .capacity = 8, .seed = 3, .momentum = true, .momentum_share = {1, 2}};
  settings.buckets = {.bytes = 0, .first_bytes = 0};  // each parameter is one
  const auto share = make_mlp(*stream_, settings);
  EXPECT_EQ(share->momentum_slices(), (std::vector<Slice>{{10, 10}, {21, 1}}));  // of 20 weights and of 2 biases
  const Sgd how{.lr = 0.3, .images = 8, .momentum = 0.9};
  for (int step = 0; step < 2; ++step) {
    run(*whole, 8);
    whole->step(how);
    stream_->sync();
    std::copy_n(whole->gradients(), whole->size(), share->gradients());
    for (const Slice& slice : share->momentum_slices()) share->step(how, slice);
    stream_->sync();
  }
  EXPECT_EQ(copy(share->momentum().data(), 10), copy(whole->momentum().data() + 10, 10));
  EXPECT_EQ(share->momentum()[10], whole->momentum()[21]);
  EXPECT_THROW(share->step(how, {9, 2}), harness::Error);
}

TEST_F(Optimizer, AddsTheGradientsOfTheLaterPartsOfABatch) {
  const auto whole = mlp(false), parts = mlp(false, 3);
  run(*whole, 8);
  int done = 0;
  for (const int images : {3, 3, 2}) {
    for (int i = 0; i < images; ++i) {
      data_.load(done + i, parts->images() + i * data_.image_size, parts->labels() + i);
    }
    run(*parts, images, done == 0 ? Gradients::replace : Gradients::add);
    done += images;
  }
  for (std::size_t i = 0; i < whole->size(); ++i) {
    EXPECT_NEAR(parts->gradients()[i], whole->gradients()[i], 1e-6 * std::abs(whole->gradients()[i]) + 1e-7) << i;
  }
  const std::vector<double> before = copy(parts->gradients(), parts->size());
  run(*parts, 0, Gradients::add);
  EXPECT_EQ(copy(parts->gradients(), parts->size()), before);
}

}  // namespace
}  // namespace models
