// SPDX-License-Identifier: Apache-2.0
#include "models/model.hpp"

namespace models {

namespace {

class Mlp : public Model {
 public:
  Mlp(harness::Stream& stream, const ModelSettings& settings) : Model(stream, settings, find_model("mlp").input) {
    linear("fc", find_model("mlp").classes);
    complete();
  }
};

}  // namespace

std::unique_ptr<Model> make_mlp(harness::Stream& stream, const ModelSettings& settings) {
  return std::make_unique<Mlp>(stream, settings);
}

}  // namespace models
