// SPDX-License-Identifier: Apache-2.0
// Data-parallel training as a value that can be stepped: a replica of the model on every device, the sampler that deals
// out each batch, and the all-reduces that a strategy asks for. The bench drives all replicas in step from one thread;
// the devices do the work.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "allreduce/engine.hpp"
#include "harness/device/device.hpp"
#include "models/dataset.hpp"
#include "models/model.hpp"

namespace bench {

struct TrainingSettings {
  std::string model = "lenet";
  std::string strategy = "distributed";  // scratch: an all-reduce a parameter, after backward; distributed: buckets
  std::string algorithm = "ring";
  bool overlap = true;                  // distributed: a bucket is reduced as soon as backward has filled it
  std::size_t bucket_bytes = 25 << 20;  // at most; the first bucket is smaller
  std::size_t global_batch = 256;
  double lr = 0.1;
  models::Sampler::Order order = models::Sampler::Order::shuffled;
  models::ModelSettings replica = {};  // its capacity is set here
};

// What of a step is done: all of it, or compute with the communication left out, or the communication alone.
enum class Work { step, compute, communication };

// Seconds of a step's phases, the largest over ranks.
struct Phases {
  double forward = 0, backward = 0, optimizer = 0;
};

class Replicas {
 public:
  // The data set must outlive this.
  Replicas(harness::Devices& devices, const models::Dataset& data, const TrainingSettings& settings);
  ~Replicas();

  std::size_t batches() const { return sampler_.batches(); }

  // Deals a batch out to the devices; gives its number of images.
  std::size_t load(std::size_t epoch, std::size_t batch);

  // One step on the loaded batch, to its end; gives its seconds.
  double run(Work work);

  // Of the last forward pass, over the global batch.
  double mean_loss() const;
  const Phases& phases() const { return phases_; }

  // Fraction of `test` that is classified right: each replica takes its part, and the same all-reduce sums the counts.
  double accuracy(const models::Dataset& test);

  // Parameters of all replicas, to be put back after a measurement.
  std::vector<float> parameters() const;
  void restore(const std::vector<float>& parameters);

  // A hash of each rank's parameters; throws harness::Error naming the first tensor in which two ranks differ.
  std::vector<std::string> checksums() const;

  // What each all-reduce of a step sends, in the order of the steps.
  const std::vector<models::Slice>& reductions() const { return reductions_; }
  std::size_t size() const { return models_[0]->size(); }

 private:
  void plan();
  std::unique_ptr<allreduce::Program> prepare(std::vector<std::byte*> data, std::size_t count, harness::Dtype dtype);
  void reduce_ready(models::Slice filled, std::size_t& next, std::vector<std::vector<harness::Event>>& done);
  int ranks() const { return devices_.size(); }

  harness::Devices& devices_;
  const models::Dataset& data_;
  TrainingSettings settings_;
  models::Sampler sampler_;
  std::vector<std::unique_ptr<harness::Stream>> streams_;
  std::vector<std::unique_ptr<models::Model>> models_;
  std::vector<models::Slice> reductions_;
  std::vector<std::unique_ptr<allreduce::Program>> programs_;  // one a reduction
  std::vector<int> shard_;                                     // images of each rank in the loaded batch
  Phases phases_;
};

}  // namespace bench
