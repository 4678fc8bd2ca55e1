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

// Odd sides, channels that are no multiple of anything but those of 16, and every layer that a network may have: the
// sides go 28 -> 26 -> pool 13 -> 12 -> 12 around a shortcut -> 6 around one with a convolution -> pool 1.
class OddNetwork : public Model {
 public:
  OddNetwork(harness::Stream& stream, const ModelSettings& settings) : Model(stream, settings) {
    convolution("conv1", 7, {.kernel = 3});
    relu("relu1");
    average_pool("pool1", 2);
    convolution("conv2", 16, {.kernel = 4, .padding = 1});
    batch_norm("bn2", true);
    Source shortcut = branch("shortcut3");
    convolution("conv3", 16, {.kernel = 3, .padding = 1});
    residual_sum("sum3", batch_norm("bn3", false), shortcut);
    shortcut = branch("shortcut4");
    convolution("conv4", 19, {.kernel = 3, .stride = 2, .padding = 1});
    const Source main = batch_norm("bn4", false);
    shortcut = convolution("conv5", 19, {.kernel = 1, .stride = 2}, shortcut);
    residual_sum("sum4", main, shortcut);
    average_pool("pool4", 4);
    linear("fc1", 33);
    relu("relu5");
    linear("fc2", 10);
    complete();
  }
};

using Numbers = std::vector<double>;

// A batch of that network, as a list of what each step does on the way back.
class Reference {
 public:
  explicit Reference(Model& model) : model_(model), gradients_(model.size()), statistics_(model.statistics().size()) {}

  // Gives the loss of the model's first images, and computes the gradients and what the running statistics become.
  double run(int images, bool evaluate = false) {
    images_ = images;
    evaluate_ = evaluate;
    parameter_ = statistic_ = 0;
    back_.clear();
    std::fill(gradients_.begin(), gradients_.end(), 0.0);
    std::copy(model_.statistics().begin(), model_.statistics().end(), statistics_.begin());
    const float* pixels = model_.images();
    auto at = std::make_shared<Node>(Node{{1, 28, 28}, Numbers(pixels, pixels + std::size_t(images) * 784), {}});
    at->pull.resize(at->value.size());
    at = pool(relu(convolution(at, 7, {.kernel = 3})), 2);
    at = relu(batch_norm(convolution(at, 16, {.kernel = 4, .padding = 1})));
    at = relu(sum(batch_norm(convolution(at, 16, {.kernel = 3, .padding = 1})), at));
    const auto main = batch_norm(convolution(at, 19, {.kernel = 3, .stride = 2, .padding = 1}));
    at = relu(sum(main, convolution(at, 19, {.kernel = 1, .stride = 2})));
    at = linear(relu(linear(pool(at, 4), 33)), 10);
    double loss = 0;
    for (int image = 0; image < images; ++image) {
      const auto logits = at->value.begin() + image * 10;
      const double total =
          std::accumulate(logits, logits + 10, 0.0, [](double t, double x) { return t + std::exp(x); });
      const int label = model_.labels()[image];
      loss += std::log(total) - logits[label];
      for (int i = 0; i < 10; ++i) at->pull[image * 10 + i] = std::exp(logits[i]) / total - (i == label ? 1 : 0);
    }
    for (auto step = back_.rbegin(); step != back_.rend(); ++step) (*step)();
    return loss;
  }
  const Numbers& gradients() const { return gradients_; }
  const Numbers& statistics() const { return statistics_; }

 private:
  struct Node {
    Shape shape;
    Numbers value, pull;
  };
  using NodePointer = std::shared_ptr<Node>;

  NodePointer make(const Shape& shape) const {
    const Numbers zeros(images_ * shape.size());
    return std::make_shared<Node>(Node{shape, zeros, zeros});
  }
  // Parameter by parameter, in the order of the table.
  const Parameter& next() { return model_.parameter_table()[parameter_++]; }
  double value(const Parameter& parameter, std::size_t i) const { return model_.parameters()[parameter.offset + i]; }

  // y[to[k]] += weight[w[k]] * x[from[k]], for all terms k: what convolutions and linear layers are.
  using Term = std::function<void(std::size_t to, std::size_t w, std::size_t from)>;
  NodePointer weighted(const NodePointer& in, const Shape& shape, const std::function<void(const Term&)>& terms) {
    const Parameter& weight = next();
    const Parameter& bias = next();
    const NodePointer out = make(shape);
    const auto channel = [shape](std::size_t i) { return i / shape.pixels() % shape.channels; };
    for (std::size_t i = 0; i < out->value.size(); ++i) out->value[i] = value(bias, channel(i));
    terms([&](auto to, auto w, auto from) { out->value[to] += value(weight, w) * in->value[from]; });
    back_.emplace_back([=, this, &weight, &bias] {
      for (std::size_t i = 0; i < out->pull.size(); ++i) gradients_[bias.offset + channel(i)] += out->pull[i];
      terms([&](auto to, auto w, auto from) {
        gradients_[weight.offset + w] += out->pull[to] * in->value[from];
        in->pull[from] += out->pull[to] * value(weight, w);
      });
    });
    return out;
  }
  NodePointer convolution(const NodePointer& in, int channels, const Window& window) {
    const Shape from = in->shape;
    const Shape to{channels, window.outputs(from.height), window.outputs(from.width)};
    const int images = images_, k = window.kernel;
    return weighted(in, to, [=](const Term& term) {
      for (int image = 0; image < images; ++image) {
        for (int out = 0; out < static_cast<int>(to.size()); ++out) {
          for (int w = 0; w < from.channels * k * k; ++w) {
            const int y = out / to.width % to.height * window.stride + w / k % k - window.padding;
            const int x = out % to.width * window.stride + w % k - window.padding;
            if (y < 0 || x < 0 || y >= from.height || x >= from.width) continue;
            term(image * to.size() + out, out / to.pixels() * from.channels * k * k + w,
                 ((std::size_t(image) * from.channels + w / (k * k)) * from.height + y) * from.width + x);
          }
        }
      }
    });
  }
  NodePointer linear(const NodePointer& in, int features) {
    const std::size_t inputs = in->shape.size(), outputs = std::size_t(images_) * features;
    return weighted(in, {features, 1, 1}, [=](const Term& term) {
      for (std::size_t out = 0; out < outputs; ++out) {
        for (std::size_t w = 0; w < inputs; ++w) {
          term(out, out % features * inputs + w, out / features * inputs + w);
        }
      }
    });
  }
  // With the formulas of the paper, derivatives by way of the mean and the variance and all.
  NodePointer batch_norm(const NodePointer& in) {
    const Parameter& scale = next();
    const Parameter& shift = next();
    const NodePointer out = make(in->shape);
    const double count = double(images_) * in->shape.pixels();
    for (int channel = 0; channel < in->shape.channels; ++channel) {
      std::vector<std::size_t> members;
      for (std::size_t i = 0; i < in->value.size(); ++i) {
        if (int(i / in->shape.pixels()) % in->shape.channels == channel) members.push_back(i);
      }
      double mean = 0, variance = 0;
      for (const std::size_t i : members) mean += in->value[i] / count;
      for (const std::size_t i : members) variance += std::pow(in->value[i] - mean, 2) / count;
      double& running_mean = statistics_[model_.statistic_table()[statistic_].offset + channel];
      double& running_variance = statistics_[model_.statistic_table()[statistic_ + 1].offset + channel];
      if (evaluate_) {
        mean = running_mean;
        variance = running_variance;
      } else {
        running_mean = 0.9 * running_mean + 0.1 * mean;
        running_variance = 0.9 * running_variance + 0.1 * variance * count / (count - 1);
      }
      const double deviation = std::sqrt(variance + 1e-5);
      for (const std::size_t i : members) {
        out->value[i] = (in->value[i] - mean) / deviation * value(scale, channel) + value(shift, channel);
      }
      back_.emplace_back([=, this, &scale, &shift] {
        double of_variance = 0, of_mean = 0;
        for (const std::size_t i : members) {
          const double centred = in->value[i] - mean, pull = out->pull[i] * value(scale, channel);
          gradients_[scale.offset + channel] += out->pull[i] * centred / deviation;
          gradients_[shift.offset + channel] += out->pull[i];
          of_variance += pull * centred * -0.5 * std::pow(deviation, -3);
          of_mean += -pull / deviation;
        }
        for (const std::size_t i : members) {
          in->pull[i] += out->pull[i] * value(scale, channel) / deviation +
                         of_variance * 2 * (in->value[i] - mean) / count + of_mean / count;
        }
      });
    }
    statistic_ += 2;
    return out;
  }
  NodePointer relu(const NodePointer& in) {
    const NodePointer out = make(in->shape);
    for (std::size_t i = 0; i < in->value.size(); ++i) out->value[i] = std::max(in->value[i], 0.0);
    back_.emplace_back([=] {
      for (std::size_t i = 0; i < in->value.size(); ++i) in->pull[i] += in->value[i] > 0 ? out->pull[i] : 0;
    });
    return out;
  }
  NodePointer sum(const NodePointer& a, const NodePointer& b) {
    const NodePointer out = make(a->shape);
    for (std::size_t i = 0; i < out->value.size(); ++i) out->value[i] = a->value[i] + b->value[i];
    back_.emplace_back([=] {
      for (std::size_t i = 0; i < out->value.size(); ++i) {
        a->pull[i] += out->pull[i];
        b->pull[i] += out->pull[i];
      }
    });
    return out;
  }
  NodePointer pool(const NodePointer& in, int side) {
    const Shape to{in->shape.channels, in->shape.height / side, in->shape.width / side};
    const NodePointer out = make(to);
    const auto each = [=](const auto& visit) {
      for (std::size_t i = 0; i < out->value.size(); ++i) {
        const std::size_t corner = (i / to.width * side) / (to.height * side) * in->shape.pixels() +
                                   i / to.width % to.height * side * in->shape.width + i % to.width * side;
        for (int k = 0; k < side * side; ++k) visit(i, corner + std::size_t(k / side) * in->shape.width + k % side);
      }
    };
    each([&](auto i, auto from) { out->value[i] += in->value[from] / (side * side); });
    back_.emplace_back([=] { each([&](auto i, auto from) { in->pull[from] += out->pull[i] / (side * side); }); });
    return out;
  }

  Model& model_;
  Numbers gradients_, statistics_;
  int images_ = 0, parameter_ = 0, statistic_ = 0;
  bool evaluate_ = false;
  std::vector<std::function<void()>> back_;
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
  // The largest distance of a parameter's gradient from the expected one, as a fraction of that one's norm; where it
  // should be nothing but rounding (a bias that batch norm takes away again), the distance alone.
  static double distance(const Model& model, const auto& expected) {
    double worst = 0;
    for (const Parameter& parameter : model.parameter_table()) {
      double off = 0, norm = 0;
      for (std::size_t i = parameter.offset; i < parameter.offset + parameter.count; ++i) {
        off += std::pow(model.gradients()[i] - expected[i], 2);
        norm += std::pow(double{expected[i]}, 2);
      }
      const double away = std::sqrt(norm < 1e-8 ? off : off / norm);
      if (!(away <= worst)) worst = away;  // also not a number
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
  const double loss = reference.run(3);
  EXPECT_NEAR(model->outcome().loss, loss, 1e-6 * loss);
  EXPECT_LT(distance(*model, reference.gradients()), 1e-5);
}

TEST_P(Backends, KeepRunningStatisticsAndEvaluateWithThem) {
  const auto model = network(4);
  Reference reference(*model);
  for (const int images : {4, 3}) {
    load(*model, images);
    reference.run(images);
    const Numbers expected = reference.statistics();
    model->forward(images);
    stream_->sync();
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(model->statistics()[i], expected[i], 1e-5 * std::abs(expected[i]) + 1e-6) << i;
    }
  }
  const std::vector<float> before(model->statistics().begin(), model->statistics().end());
  for (const int images : {4, 1}) {
    const double loss = reference.run(images, true);
    model->evaluate(images);
    stream_->sync();
    EXPECT_NEAR(model->outcome().loss, loss, 1e-5 * loss) << images;
  }
  EXPECT_TRUE(std::equal(before.begin(), before.end(), model->statistics().begin()));
  model->evaluate(0);
  stream_->sync();
  EXPECT_EQ(model->outcome().loss, 0);
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
  model->step({.lr = 0.05});
  run(*model, 2);
  EXPECT_LT(model->outcome().loss, before);
  Reference reference(*model);
  reference.run(2);
  EXPECT_LT(distance(*model, reference.gradients()), 1e-5);
}

TEST_P(Backends, RepeatThemselvesBitForBit) {
  const auto one = network(4), other = network(4);
  run(*one, 4);
  run(*other, 4);
  EXPECT_TRUE(std::equal(one->gradients(), one->gradients() + one->size(), other->gradients()));
}

TEST_P(Backends, ComeCloseToTheDefinitionsWithWinogradsConvolutions) {
  std::unique_ptr<Model> model;
  try {
    model = std::make_unique<OddNetwork>(
        *stream_,
        ModelSettings{.backend = GetParam(), .capacity = 3, .init = Init::usual, .seed = 11, .math = Math::winograd});
  } catch (const harness::UsageError& error) {
    GTEST_SKIP() << error.what();
  }
  run(*model, 3);
  Reference reference(*model);
  const double loss = reference.run(3);
  EXPECT_NEAR(model->outcome().loss, loss, 1e-4 * loss);
  EXPECT_LT(distance(*model, reference.gradients()), 1e-3);
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
