// SPDX-License-Identifier: Apache-2.0
// Training steps as PyTorch made them (golden/), and the means to make them again: for tests that hold a network
// against it. The images are Fashion-MNIST's in file order, the parameters those that any language can draw.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "models/dataset.hpp"
#include "models/model.hpp"

namespace models {

inline double norm_of(std::span<const float> values) {
  double square = 0;
  for (const float value : values) square += double{value} * value;
  return std::sqrt(square);
}

inline nlohmann::json golden(const std::string& name) {
  std::ifstream file(std::string(RINGMARK_SOURCE_DIR "/tests/models/golden/") + name + ".json");
  return nlohmann::json::parse(file);
}

// `ranks` replicas on devices of their own, stepping through the training set in file order.
class Replicas {
 public:
  Replicas(const std::string& model, const nlohmann::json& reference, const std::string& backend, int ranks)
      : devices_(harness::open_devices("cpu:" + std::to_string(ranks), {1, 300})),
        data_(load_fashion_mnist(Part::train)),
        sampler_(data_.size(), reference["batch"], ranks, Sampler::Order::sequential, 0),
        batch_(reference["batch"]),
        lr_(reference["lr"]) {
    ModelSettings settings;
    settings.backend = backend;
    settings.capacity = static_cast<int>(batch_) / ranks;
    settings.init = reference["init"] == "he" ? Init::he : Init::std001;
    settings.seed = reference["seed"];
    for (int rank = 0; rank < ranks; ++rank) {
      streams_.push_back((*devices_)[rank].make_stream());
      models_.push_back(make_model(model, *streams_.back(), settings));
    }
  }

  // Gives the mean loss over the global batch, before the update, and leaves the summed gradients on all replicas.
  double step(int number) {
    double loss = 0;
    correct = 0;
    for (std::size_t rank = 0; rank < models_.size(); ++rank) {
      Model& model = *models_[rank];
      const int images = load(model, number, static_cast<int>(rank));
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
      models_[rank]->step({.lr = lr_, .images = batch_});
      streams_[rank]->sync();
    }
    return loss / static_cast<double>(batch_);
  }

  // The mean loss over the first batch with the running statistics of the first replica.
  double evaluate() {
    double loss = 0;
    for (std::size_t rank = 0; rank < models_.size(); ++rank) {
      models_[0]->evaluate(load(*models_[0], 0, static_cast<int>(rank)));
      streams_[0]->sync();
      loss += models_[0]->outcome().loss;
    }
    return loss / static_cast<double>(batch_);
  }

  Model& model() { return *models_[0]; }
  int correct = 0;

 private:
  // Gives the number of images.
  int load(Model& model, std::size_t batch, int rank) {
    const auto shard = sampler_.shard(0, batch, rank);
    for (std::size_t i = 0; i < shard.size(); ++i)
      data_.load(shard[i], model.images() + i * Dataset::pixels, model.labels() + i);
    return static_cast<int>(shard.size());
  }

  std::unique_ptr<harness::Devices> devices_;
  Dataset data_;
  Sampler sampler_;
  std::size_t batch_;
  double lr_;
  std::vector<std::unique_ptr<harness::Stream>> streams_;
  std::vector<std::unique_ptr<Model>> models_;
};

struct Tolerance {
  double loss = 0;          // of each step, relative
  double norm = 0;          // of the first step's gradient, relative
  double zero_norm = 1e-3;  // where that should be nothing but rounding: absolute
};

// The first steps of golden/NAME.json.
inline void reproduce(const std::string& model, const std::string& name, const std::string& backend, int ranks,
                      int steps, const Tolerance& tolerance) {
  const auto reference = golden(name);
  Replicas replicas(model, reference, backend, ranks);
  for (int number = 0; number < steps; ++number) {
    const double expected = reference["loss_mean"][number];
    EXPECT_NEAR(replicas.step(number), expected, tolerance.loss * expected)
        << name << " step " << number << " on " << ranks << " devices";
    EXPECT_NEAR(replicas.correct, reference["batch_correct"][number].get<int>(), number == 0 ? 0 : 1);
    if (number > 0) continue;
    for (const Parameter& parameter : replicas.model().parameter_table()) {
      const double norm = reference["gradient_l2_step0"].at(parameter.name);
      const double found = norm_of({replicas.model().gradients() + parameter.offset, parameter.count});
      EXPECT_NEAR(found, norm, norm < 1e-9 ? tolerance.zero_norm : tolerance.norm * norm) << parameter.name;
    }
  }
  if (steps < 10 || !reference.contains("statistic_l2_after10")) return;
  for (const Statistic& statistic : replicas.model().statistic_table()) {
    const double norm = reference["statistic_l2_after10"].at(statistic.name);
    const double found = norm_of(replicas.model().statistics().subspan(statistic.offset, statistic.count));
    EXPECT_NEAR(found, norm, tolerance.loss * norm) << statistic.name;
  }
  const double loss = reference["evaluation_loss_after10"];
  EXPECT_NEAR(replicas.evaluate(), loss, tolerance.loss * loss);
}

}  // namespace models
