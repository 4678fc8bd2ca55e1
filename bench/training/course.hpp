// SPDX-License-Identifier: Apache-2.0
// A course of training: so many steps, or whole epochs, by one strategy from the state that the replicas are in, with
// an evaluation after each epoch where there is a test set. The sampler gives each rank its own part; an epoch sees
// every image once.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bench/training/strategy.hpp"
#include "models/dataset.hpp"

namespace bench {

struct CourseSettings {
  const models::Dataset* train = nullptr;
  const models::Dataset* test = nullptr;  // null: no evaluation
  std::size_t global_batch = 256;
  models::Sampler::Order order = models::Sampler::Order::shuffled;
  std::uint64_t seed = 1;
  std::size_t steps = 0;
  std::size_t epochs = 0;           // instead of steps, where above 0
  std::vector<double> losses = {};  // of the steps that were taken before: it goes on after them
};

struct Epoch {
  int number = 0;                       // from 1
  double seconds = 0;                   // of its steps and their loading; not a number where it began before the run
  double loss = 0;                      // mean over its steps
  std::optional<double> accuracy = {};  // on the test set
  std::vector<std::string> checksums = {};  // of the parameters, per rank
};

// What is called while a course goes on.
struct CourseHooks {
  std::function<void(std::size_t)> shown;                     // before each step, with its number
  std::function<void(const Epoch&)> ended;                    // after each epoch, and after the last step
  std::function<void(const std::vector<double>&)> keep = {};  // then too, and every minute, with the losses so far:
                                                              // when a checkpoint is due
};

class Course {
 public:
  Course(int ranks, const CourseSettings& settings);

  std::size_t steps() const { return steps_; }
  std::size_t batches() const { return sampler_.batches(); }  // steps of an epoch
  // The images of a step, dealt out to the ranks.
  Batch batch(std::size_t step);

  // Trains; where all steps were taken before, only what follows an epoch is done. Throws harness::Error when the
  // replicas have parted. Gives the mean loss of each step, before its update, those of the steps before this run among
  // them.
  std::vector<double> run(Strategy& strategy, Replicas& replicas, const CourseHooks& hooks);

 private:
  CourseSettings settings_;
  int ranks_;
  models::Sampler sampler_;
  std::size_t steps_;
};

}  // namespace bench
