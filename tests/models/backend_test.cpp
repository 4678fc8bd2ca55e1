// SPDX-License-Identifier: Apache-2.0
// Every backend against a network written once more, in double and from the definitions, on shapes that fit nowhere.
#include "models/backend.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "models/dataset.hpp"
#include "models/model.hpp"
#include "tests/models/backends.hpp"

namespace models {
namespace {

// 28 -> 26 -> pool 13 -> 10 -> 9 -> pool 4: odd sides, and channels that are no multiple of anything but one of 16.
class OddNetwork : public Model {
 public:
  OddNetwork(harness::Stream& stream, const ModelSettings& settings) : Model(stream, settings) {
    convolution("conv1", 7, 3);
    relu("relu1");
    average_pool("pool1");
    convolution("conv2", 16, 4);
    convolution("conv3", 19, 2);
    relu("relu3");
    average_pool("pool3");
    linear("fc1", 33);
    relu("relu4");
    linear("fc2", 10);
    complete();
  }
};

using Numbers = std::vector<double>;

// One image of that network. Each step forward puts its own way back on the stack.
class Reference {
 public:
  explicit Reference(Model& model) : model_(model), gradients_(model.size()) {}

  // Adds the image's gradients, and gives its loss.
  double run(const float* image, int label) {
    at_ = Numbers(image, image + Dataset::pixels);
    channels_ = 1;
    side_ = Dataset::side;
    parameter_ = 0;
    back_.clear();
    convolution(3), relu(), pool(), convolution(4), convolution(2), relu(), pool(), linear(), relu(), linear();
    const double sum = std::accumulate(at_.begin(), at_.end(), 0.0, [](double s, double x) { return s + std::exp(x); });
    const double loss = std::log(sum) - at_[label];
    Numbers pull(at_.size());
    for (std::size_t i = 0; i < at_.size(); ++i) pull[i] = std::exp(at_[i]) / sum;
    pull[label] -= 1;
    for (auto step = back_.rbegin(); step != back_.rend(); ++step) pull = (*step)(pull);
    return loss;
  }
  const Numbers& gradients() const { return gradients_; }

 private:
  // y[to[k]] += weight[w[k]] * x[from[k]], for all terms k: what convolutions and linear layers are.
  void weighted(std::size_t outputs, const std::function<void(const std::function<void(int, int, int)>&)>& terms) {
    const Parameter& weight = model_.parameter_table()[parameter_];
    const Parameter& bias = model_.parameter_table()[parameter_ + 1];
    parameter_ += 2;
    const std::size_t pixels = outputs / bias.count;
    Numbers out(outputs);
    for (std::size_t i = 0; i < outputs; ++i) out[i] = model_.parameters()[bias.offset + i / pixels];
    const Numbers in = at_;
    terms([&](int to, int w, int from) { out[to] += double{model_.parameters()[weight.offset + w]} * in[from]; });
    at_ = out;
    back_.push_back([=, this, &weight, &bias](const Numbers& pull) {
      Numbers result(in.size());
      for (std::size_t i = 0; i < pull.size(); ++i) gradients_[bias.offset + i / pixels] += pull[i];
      terms([&](int to, int w, int from) {
        gradients_[weight.offset + w] += pull[to] * in[from];
        result[from] += pull[to] * model_.parameters()[weight.offset + w];
      });
      return result;
    });
  }
  void convolution(int kernel) {
    const int outputs = model_.parameter_table()[parameter_].shape[0];
    const int inputs = channels_, before = side_, after = side_ - kernel + 1;
    weighted(std::size_t(outputs) * after * after, [=](const auto& term) {
      for (int o = 0; o < outputs; ++o) {
        for (int y = 0; y < after * after; ++y) {
          for (int k = 0; k < inputs * kernel * kernel; ++k) {
            const int channel = k / (kernel * kernel), row = k / kernel % kernel, column = k % kernel;
            term(o * after * after + y, o * inputs * kernel * kernel + k,
                 (channel * before + y / after + row) * before + y % after + column);
          }
        }
      }
    });
    channels_ = outputs;
    side_ = after;
  }
  void linear() {
    const int outputs = model_.parameter_table()[parameter_].shape[0];
    const int inputs = static_cast<int>(at_.size());
    weighted(outputs, [=](const auto& term) {
      for (int k = 0; k < outputs * inputs; ++k) term(k / inputs, k, k % inputs);
    });
  }
  void relu() {
    const Numbers in = at_;
    for (double& x : at_) x = std::max(x, 0.0);
    back_.push_back([in](Numbers pull) {
      for (std::size_t i = 0; i < in.size(); ++i) pull[i] *= in[i] > 0 ? 1 : 0;
      return pull;
    });
  }
  void pool() {
    const int before = side_, after = side_ / 2, channels = channels_;
    const auto corner = [=](int out) {
      return (out / (after * after) * before + out / after % after * 2) * before + out % after * 2;
    };
    Numbers out(std::size_t(channels) * after * after);
    for (std::size_t i = 0; i < out.size(); ++i) {
      const int c = corner(static_cast<int>(i));
      out[i] = (at_[c] + at_[c + 1] + at_[c + before] + at_[c + before + 1]) / 4;
    }
    at_ = out;
    side_ = after;
    back_.push_back([=](const Numbers& pull) {
      Numbers result(std::size_t(channels) * before * before);
      for (std::size_t i = 0; i < pull.size(); ++i) {
        const int c = corner(static_cast<int>(i));
        result[c] = result[c + 1] = result[c + before] = result[c + before + 1] = pull[i] / 4;
      }
      return result;
    });
  }

  Model& model_;
  Numbers gradients_, at_;
  int channels_ = 1, side_ = 0, parameter_ = 0;
  std::vector<std::function<Numbers(const Numbers&)>> back_;
};

class Backends : public testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<Model> network(int capacity, int threads = 1) {
    return std::make_unique<OddNetwork>(*stream_, ModelSettings{GetParam(), capacity, threads, Init::usual, 11});
  }
  void load(Model& model, int images) {
    for (int i = 0; i < images; ++i) data_.load(i, model.images() + i * Dataset::pixels, model.labels() + i);
  }
  void run(Model& model, int images) {
    load(model, images);
    model.forward(images);
    for (int layer = model.layers() - 1; layer >= 0; --layer) model.backward(layer, images);
    stream_->sync();
  }
  // The largest distance of a parameter's gradient from the expected one, as a fraction of that one's norm.
  static double distance(const Model& model, const auto& expected) {
    double worst = 0;
    for (const Parameter& parameter : model.parameter_table()) {
      double off = 0, norm = 0;
      for (std::size_t i = parameter.offset; i < parameter.offset + parameter.count; ++i) {
        off += std::pow(model.gradients()[i] - expected[i], 2);
        norm += std::pow(double{expected[i]}, 2);
      }
      worst = std::max(worst, std::sqrt(off / norm));
    }
    return worst;
  }

  std::unique_ptr<harness::Devices> devices_ = harness::open_devices("cpu:1", {2, 300});
  std::unique_ptr<harness::Stream> stream_ = (*devices_)[0].make_stream();
  Dataset data_ = make_synthetic(16, 3);
};

TEST_P(Backends, GiveTheLossAndTheGradientsOfTheDefinitions) {
  const auto model = network(3);
  run(*model, 3);
  Reference reference(*model);
  double loss = 0;
  for (int i = 0; i < 3; ++i) loss += reference.run(model->images() + i * Dataset::pixels, model->labels()[i]);
  EXPECT_NEAR(model->outcome().loss, loss, 1e-6 * loss);
  EXPECT_LT(distance(*model, reference.gradients()), 1e-5);
}

TEST_P(Backends, ComputeASmallerBatchAsIfItWereTheWholeOne) {
  const auto exact = network(5), roomy = network(8);
  run(*exact, 5);
  run(*roomy, 5);
  EXPECT_NEAR(roomy->outcome().loss, exact->outcome().loss, 1e-6 * exact->outcome().loss);
  EXPECT_LT(distance(*roomy, exact->gradients()), 1e-5);
  const auto whole = network(8);
  run(*whole, 8);
  run(*roomy, 8);
  EXPECT_EQ(roomy->outcome().loss, whole->outcome().loss);
  EXPECT_EQ(distance(*roomy, whole->gradients()), 0);
}

TEST_P(Backends, GiveNoLossAndNoGradientForNoImages) {
  const auto model = network(2);
  run(*model, 2);
  run(*model, 0);
  EXPECT_EQ(model->outcome().loss, 0);
  EXPECT_EQ(model->outcome().correct, 0);
  EXPECT_TRUE(std::all_of(model->gradients(), model->gradients() + model->size(), [](float x) { return x == 0; }));
}

TEST_P(Backends, ReadTheParametersAnewInEveryStep) {
  const auto model = network(2);
  run(*model, 2);
  const double before = model->outcome().loss;
  model->step(0.05F);
  run(*model, 2);
  EXPECT_LT(model->outcome().loss, before);
  Reference reference(*model);
  for (int i = 0; i < 2; ++i) reference.run(model->images() + i * Dataset::pixels, model->labels()[i]);
  EXPECT_LT(distance(*model, reference.gradients()), 1e-5);
}

TEST_P(Backends, RepeatThemselvesBitForBit) {
  const auto one = network(4), other = network(4);
  run(*one, 4);
  run(*other, 4);
  EXPECT_TRUE(std::equal(one->gradients(), one->gradients() + one->size(), other->gradients()));
}

// The thread sanitizer does not see how OpenMP's threads wait for each other.
#ifndef __SANITIZE_THREAD__
TEST_P(Backends, AgreeWithThemselvesOnTwoThreads) {
  const auto one = network(4), two = network(4, 2);
  run(*one, 4);
  run(*two, 4);
  EXPECT_LT(distance(*two, one->gradients()), 1e-5);
}
#endif

INSTANTIATE_TEST_SUITE_P(All, Backends, testing::ValuesIn(available_backends()),
                         [](const auto& backend) { return backend.param; });

TEST(BackendTable, NamesWhatItHasWhenAskedForAnother) {
  try {
    find_backend("magic");
    ADD_FAILURE() << "was found";
  } catch (const harness::UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("plain"), std::string::npos) << error.what();
  }
}

TEST(BackendTable, SaysWhyABuildLacksABackend) {
  for (const auto& row : backends()) {
    EXPECT_EQ(row.make == nullptr, !row.lacks.empty()) << row.name;
    if (row.make) {
      EXPECT_EQ(&find_backend(row.name), &row);
    } else {
      EXPECT_THROW(find_backend(row.name), harness::UsageError);
    }
  }
}

}  // namespace
}  // namespace models
