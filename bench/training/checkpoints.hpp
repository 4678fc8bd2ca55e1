// SPDX-License-Identifier: Apache-2.0
// --save and --resume: training that outlives its process. The file holds what the replicas hold
// (models/checkpoint.hpp) and as metadata what has to be the same for training to go on (model, data, seed, order,
// global batch), how far it came (epoch, step, and the step's place in the epoch, which is the sampler's position) and
// the losses so far. So a run that goes on gives the losses that it would have given without the break, bit for bit.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "bench/replicas.hpp"
#include "harness/options.hpp"
#include "models/checkpoint.hpp"

namespace bench {

class Checkpoints {
 public:
  // Whoever uses neither option.
  Checkpoints() = default;
  // For the one point that the options make, with this model and global batch; `writes` is whether this process does,
  // of several. Throws harness::UsageError when the file to save cannot be written, and when the one to resume cannot
  // be read or is of another training.
  Checkpoints(const harness::Options& options, const std::string& model, std::size_t global_batch, bool writes);

  bool saves() const { return saves_; }
  // Of the steps that were taken before this run.
  const std::vector<double>& losses() const { return losses_; }

  // Gives all replicas what the file to resume holds, if there is one. Throws harness::UsageError when that does not
  // fit or lies behind the last of `steps`.
  void restore(const Replicas& replicas, std::size_t steps) const;
  // Replaces the file as a whole, from every process together; the replicas are in the state that the next step starts
  // from. `losses` are of all steps so far, `batches` is the number of steps in an epoch.
  void save(const Replicas& replicas, const std::vector<double>& losses, std::size_t batches) const;

 private:
  harness::UsageError refusal(const std::string& why) const;

  bool saves_ = false;
  std::filesystem::path path_;                   // empty where another process writes it
  std::map<std::string, std::string> training_;  // what has to be the same
  std::string resumed_;                          // as typed
  models::Checkpoint checkpoint_;
  std::vector<double> losses_;
};

}  // namespace bench
