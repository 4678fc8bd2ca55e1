// SPDX-License-Identifier: Apache-2.0
#include "models/model.hpp"

namespace models {

namespace {

class Resnet18 : public Model {
 public:
  Resnet18(harness::Stream& stream, const ModelSettings& settings) : Model(stream, settings) {
    convolution("conv1", 64, {.kernel = 3, .padding = 1});
    batch_norm("bn1", true);
    int number = 0;
    for (const int channels : {64, 128, 256, 512}) {
      for (const bool first : {true, false}) {
        const bool narrows = first && channels > 64;
        block("blocks." + std::to_string(number++) + ".", channels, narrows);
      }
    }
    average_pool("pool", shape().height);
    linear("fc", 10);
    complete();
  }

 private:
  // Two convolutions and a way around them. A block that narrows takes every other pixel, also on that way.
  void block(const std::string& name, int channels, bool narrows) {
    const int stride = narrows ? 2 : 1;
    Source shortcut = branch(name + "shortcut");
    convolution(name + "conv1", channels, {.kernel = 3, .stride = stride, .padding = 1});
    batch_norm(name + "bn1", true);
    convolution(name + "conv2", channels, {.kernel = 3, .padding = 1});
    const Source main = batch_norm(name + "bn2", false);
    if (narrows) shortcut = convolution(name + "conv3", channels, {.kernel = 1, .stride = stride}, shortcut);
    residual_sum(name + "sum", main, shortcut);
  }
};

}  // namespace

std::unique_ptr<Model> make_resnet18(harness::Stream& stream, const ModelSettings& settings) {
  return std::make_unique<Resnet18>(stream, settings);
}

}  // namespace models
