// SPDX-License-Identifier: Apache-2.0
// The layers of a network dealt to the devices of a pipeline, by how long each takes.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "harness/device/device.hpp"
#include "models/model.hpp"

namespace bench {

struct DealtStage {
  models::Stage layers = {};
  double seconds = 0;  // of its layers, forward and backward, for the images of a micro-batch
  friend bool operator==(const DealtStage&, const DealtStage&) = default;
};

// Stages of layers in a row, each beginning at one of `beginnings` (the first is 0): the longest as short as can be.
// `seconds` are the layers'. Throws harness::Error for more stages than beginnings.
std::vector<DealtStage> deal_layers(std::span<const double> seconds, std::span<const int> beginnings, int stages);

// Measures a model's layers on the first of these devices, by settings.capacity images, and deals them, a stage to each
// device. Medians of a few passes.
std::vector<DealtStage> deal_measured_layers(const harness::Devices& devices, const std::string& model,
                                             models::ModelSettings settings);

}  // namespace bench
