// SPDX-License-Identifier: Apache-2.0
#include "bench/training/checkpoints.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

#include "harness/file.hpp"

namespace bench {

using nlohmann::json;

Checkpoints::Checkpoints(const harness::Options& options, const std::string& model, std::size_t global_batch,
                         bool writes)
    : saves_(options.given("save")),
      training_({{"model", model},
                 {"data", options.text("data")},
                 {"seed", std::to_string(options.integer("seed"))},
                 {"order", options.text("order")},
                 {"batch", std::to_string(global_batch)}}) {
  if (saves_ && writes) path_ = harness::writable("save", options.text("save"));
  if (!options.given("resume")) return;
  resumed_ = options.text("resume");
  try {
    checkpoint_ = models::load_checkpoint(resumed_);
  } catch (const harness::UsageError& error) {
    throw refusal(error.what());
  }
  const auto& found = checkpoint_.metadata;
  for (const auto& [name, value] : training_) {
    const auto other = found.find(name);
    if (other == found.end()) throw refusal("no checkpoint of bench_train, which would name its " + name);
    if (other->second != value) throw refusal("its " + name + " is " + other->second + ", that of this run " + value);
  }
  try {
    for (const json& loss : json::parse(found.at("losses"))) {
      losses_.push_back(loss.is_null() ? std::nan("") : loss.get<double>());
    }
  } catch (const std::exception&) {
    throw refusal("its losses cannot be read");
  }
}

harness::UsageError Checkpoints::refusal(const std::string& why) const {
  return harness::bad_value("resume", resumed_, why);
}

void Checkpoints::restore(const Replicas& replicas, std::size_t steps) const {
  if (resumed_.empty()) return;
  if (losses_.size() > steps) {
    throw refusal("it is at step " + std::to_string(losses_.size()) + ", this run ends at " + std::to_string(steps));
  }
  try {
    replicas.restore(checkpoint_);
  } catch (const harness::UsageError& error) {
    throw refusal(error.what());
  }
}

void Checkpoints::save(const Replicas& replicas, const std::vector<double>& losses, std::size_t batches) const {
  auto metadata = training_;
  metadata.insert({{"step", std::to_string(losses.size())},
                   {"epoch", std::to_string(losses.size() / batches)},
                   {"step_of_epoch", std::to_string(losses.size() % batches)},
                   {"losses", json(losses).dump()}});
  const models::Checkpoint checkpoint = replicas.checkpoint(std::move(metadata));
  if (!path_.empty()) models::save(checkpoint, path_);
}

}  // namespace bench
