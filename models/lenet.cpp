// SPDX-License-Identifier: Apache-2.0
#include "models/model.hpp"

namespace models {

namespace {

class Lenet : public Model {
 public:
  Lenet(harness::Stream& stream, const ModelSettings& settings) : Model(stream, settings) {
    convolution("conv1", 20, {.kernel = 3});
    relu("relu1");
    average_pool("pool1", 2);
    convolution("conv2", 50, {.kernel = 5});
    relu("relu2");
    average_pool("pool2", 2);
    linear("fc1", 128, Split::outputs);
    relu("relu3");
    linear("fc2", 10);
    complete();
  }
};

}  // namespace

std::unique_ptr<Model> make_lenet(harness::Stream& stream, const ModelSettings& settings) {
  return std::make_unique<Lenet>(stream, settings);
}

}  // namespace models
