// SPDX-License-Identifier: Apache-2.0
// Networks that are cut, by layers or by features: the pieces together compute what the whole network does. Here they
// all lie on one device, and the test carries what passes between them.
#include <gtest/gtest.h>

#include <cmath>

#include "models/dataset.hpp"
#include "models/model.hpp"
#include "tests/models/backends.hpp"

namespace models {
namespace {

constexpr int images_of_a_part = 3;

class Cuts : public testing::TestWithParam<std::string> {
 protected:
  ModelSettings settings() const {
    return {.backend = GetParam(), .capacity = images_of_a_part, .init = Init::usual, .seed = 5};
  }
  // Plain loops would take ten seconds for ResNet-18.
  static std::vector<std::string> networks() {
    return GetParam() == "plain" ? std::vector<std::string>{"lenet"} : std::vector<std::string>{"lenet", "resnet18"};
  }
  void load(Model& model, int part = 0) {
    const std::size_t size = model.input().size();
    for (int i = 0; i < images_of_a_part; ++i) {
      float* image = model.stage().first == 0 ? model.images(part) + i * size : ignored_.data();
      data_.load(part * images_of_a_part + i, image, model.labels(part) + i);
    }
  }
  std::unique_ptr<Model> run_whole(const std::string& name) {
    auto whole = make_model(name, *stream_, settings());
    load(*whole);
    forward(*whole);
    backward(*whole);
    return whole;
  }
  void forward(Model& model, int part = 0) {
    for (int layer = model.stage().first; layer < model.stage().end; ++layer) {
      model.forward(layer, images_of_a_part, part);
    }
    stream_->sync();
  }
  void backward(Model& model, int part = 0) {
    for (int layer = model.stage().end - 1; layer >= model.stage().first; --layer) {
      model.backward(layer, images_of_a_part, part > 0 ? Gradients::add : Gradients::replace, part);
    }
    stream_->sync();
  }
  static const Parameter& find(const Model& model, const std::string& name) {
    const auto& table = model.parameter_table();
    return *std::find_if(table.begin(), table.end(), [&](const Parameter& one) { return one.name == name; });
  }
  // That the piece has these parameters and gradients of the whole, to rounding; which is all there is to the gradient
  // of a bias that batch norm takes away again.
  static void expect_part_of(const Model& whole, const Model& piece, double tolerance) {
    EXPECT_EQ(piece.whole_size(), whole.size());
    for (const Parameter& own : piece.parameter_table()) {
      const Parameter& all = find(whole, own.name);
      const auto norm = [&](auto&& value) {
        double square = 0;
        for (std::size_t i = 0; i < own.count; ++i) square += std::pow(double{value(i)}, 2);
        return std::sqrt(square);
      };
      for (std::size_t i = 0; i < own.count; ++i) {
        ASSERT_EQ(piece.parameters()[own.offset + i], whole.parameters()[all.offset + own.cut.in_whole(i)]) << own.name;
      }
      const float *found = piece.gradients() + own.offset, *expected = whole.gradients() + all.offset;
      const double off = norm([&](std::size_t i) { return found[i] - expected[own.cut.in_whole(i)]; });
      EXPECT_LE(off, tolerance * norm([&](std::size_t i) { return expected[own.cut.in_whole(i)]; }) + 1e-4) << own.name;
    }
  }

  std::unique_ptr<harness::Devices> devices_ = harness::open_devices("cpu:1", {1, 300});
  std::unique_ptr<harness::Stream> stream_ = (*devices_)[0].make_stream();
  Dataset data_ = make_synthetic(2 * images_of_a_part, 3);
  std::vector<float> ignored_ = std::vector<float>(Dataset::pixels);
};

TEST_P(Cuts, StagesComputeWhatTheWholeNetworkDoes) {
  for (const std::string& name : networks()) {
    const auto whole = run_whole(name);
    const std::vector<int> beginnings = whole->beginnings();
    const std::size_t step = name == "lenet" ? 1 : 4;  // all places, or some
    for (std::size_t i = 1; i < beginnings.size(); i += step) {
      ModelSettings first = settings(), second = settings();
      first.stage.end = second.stage.first = beginnings[i];
      const auto before = make_model(name, *stream_, first), after = make_model(name, *stream_, second);
      EXPECT_EQ(before->size() + after->size(), whole->size());
      load(*before);
      load(*after);
      ASSERT_EQ(before->outlet_shape().size() * images_of_a_part * sizeof(float), after->inlet().bytes);
      forward(*before);
      std::copy_n(before->outlet().values, after->inlet().bytes / sizeof(float), after->inlet().values);
      forward(*after);
      backward(*after);
      std::copy_n(after->inlet().gradients, after->inlet().bytes / sizeof(float), before->outlet().gradients);
      backward(*before);
      EXPECT_NEAR(after->outcome().loss, whole->outcome().loss, 1e-6 * whole->outcome().loss) << beginnings[i];
      for (const auto& piece : {before.get(), after.get()}) expect_part_of(*whole, *piece, 1e-5);
    }
  }
}

TEST_P(Cuts, APartKeepsItsActivationsWhileAnotherIsComputed) {
  ModelSettings two_parts = settings(), twice_as_many = settings();
  two_parts.parts = 2;
  twice_as_many.capacity *= 2;
  const auto parts = make_lenet(*stream_, two_parts), whole = make_lenet(*stream_, twice_as_many);
  for (const int part : {0, 1}) load(*parts, part);
  for (const int part : {0, 1}) forward(*parts, part);
  for (const int part : {0, 1}) backward(*parts, part);
  for (int i = 0; i < 2 * images_of_a_part; ++i) {
    data_.load(i, whole->images() + std::size_t(i) * whole->input().size(), whole->labels() + i);
  }
  whole->forward(2 * images_of_a_part);
  for (int layer = whole->layers() - 1; layer >= 0; --layer) whole->backward(layer, 2 * images_of_a_part);
  stream_->sync();
  EXPECT_NEAR(parts->outcome(0).loss + parts->outcome(1).loss, whole->outcome().loss, 1e-6 * whole->outcome().loss);
  expect_part_of(*whole, *parts, 1e-5);
}

// Adds up what several devices would.
void add_up(const std::vector<float*>& values, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    float sum = 0;
    for (const float* each : values) sum += each[i];
    for (float* each : values) each[i] = sum;
  }
}

TEST_P(Cuts, SharesOfLinearLayersComputeWhatTheWholeOnesDo) {
  for (const std::string& name : networks()) {
    const auto whole = run_whole(name);
    for (const int shares : {2, 3}) {
      std::vector<std::unique_ptr<Model>> pieces;
      for (int index = 0; index < shares; ++index) {
        ModelSettings share = settings();
        share.features = {index, shares};
        pieces.push_back(make_model(name, *stream_, share));
        load(*pieces.back());
      }
      const auto each_layer = [&](int first, int end, int step, auto&& run) {
        for (int layer = first; layer != end; layer += step) {
          for (const auto& piece : pieces) run(*piece, layer);
        }
        stream_->sync();
      };
      const auto forward_layer = [&](Model& piece, int layer) { piece.forward(layer, images_of_a_part); };
      const auto backward_layer = [&](Model& piece, int layer) { piece.backward(layer, images_of_a_part); };
      ASSERT_EQ(pieces[0]->shared().size(), 1U);
      const Shared shared = pieces[0]->shared()[0];
      const int layers = pieces[0]->layers();
      std::vector<float*> sums, gradients;
      for (const auto& piece : pieces) {
        sums.push_back(piece->output(shared.last).values);
        gradients.push_back(piece->input_of(shared.first).gradients);
      }
      each_layer(0, shared.last + 1, 1, forward_layer);
      add_up(sums, pieces[0]->output(shared.last).bytes / sizeof(float));
      each_layer(shared.last + 1, layers, 1, forward_layer);
      each_layer(layers - 1, shared.first - 1, -1, backward_layer);
      add_up(gradients, pieces[0]->input_of(shared.first).bytes / sizeof(float));
      each_layer(shared.first - 1, -1, -1, backward_layer);
      for (const auto& piece : pieces) {
        EXPECT_NEAR(piece->outcome().loss, whole->outcome().loss, 1e-6 * whole->outcome().loss);
        expect_part_of(*whole, *piece, 1e-5);
      }
      // What is shared out is there once.
      std::size_t elements = 0, everywhere = 0;
      for (const auto& piece : pieces) {
        for (const Parameter& parameter : piece->parameter_table()) {
          if (parameter.layer < shared.first) {
            everywhere += parameter.count;
          } else {
            elements += parameter.count;
          }
        }
      }
      EXPECT_EQ(elements + everywhere / shares, whole->size());
    }
  }
}

TEST_P(Cuts, FeaturesThatAreTooFewForTheDevicesAreNamed) {
  ModelSettings share = settings();
  share.features = {0, 200};
  try {
    make_lenet(*stream_, share);
    FAIL() << "128 features were shared out to 200 devices";
  } catch (const harness::Error& error) {
    EXPECT_NE(std::string(error.what()).find("fc1"), std::string::npos) << error.what();
  }
}

TEST_P(Cuts, AStageBeginsWhereOneTensorCrosses) {
  const auto lenet = make_lenet(*stream_, settings());
  std::vector<std::string> names;
  for (const int layer : lenet->beginnings()) names.push_back(lenet->layer_name(layer));
  EXPECT_EQ(names, (std::vector<std::string>{"conv1", "conv2", "fc1", "fc2"}));
  ModelSettings in_a_block = settings();
  in_a_block.stage.first = 4;  // the second convolution of the first block, around which values go straight on
  EXPECT_THROW(make_resnet18(*stream_, in_a_block), harness::Error);
}

INSTANTIATE_TEST_SUITE_P(All, Cuts, testing::ValuesIn(available_backends()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace models
