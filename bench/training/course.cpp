// SPDX-License-Identifier: Apache-2.0
#include "bench/training/course.hpp"

#include "harness/clock.hpp"

namespace bench {

Course::Course(int ranks, const CourseSettings& settings)
    : settings_(settings),
      ranks_(ranks),
      sampler_(settings.train->size(), settings.global_batch, ranks, settings.order, settings.seed),
      steps_(settings.epochs > 0 ? settings.epochs * sampler_.batches() : settings.steps) {}

Batch Course::batch(std::size_t step) {
  Batch batch{settings_.train};
  for (int rank = 0; rank < ranks_; ++rank) {
    const auto shard = sampler_.shard(step / sampler_.batches(), step % sampler_.batches(), rank);
    batch.images.insert(batch.images.end(), shard.begin(), shard.end());
    batch.shards.push_back(shard.size());
  }
  return batch;
}

std::vector<double> Course::run(Strategy& strategy, Replicas& replicas, const std::function<void(std::size_t)>& shown,
                                const std::function<void(const Epoch&)>& ended) {
  std::vector<double> losses;
  Epoch epoch{.number = 1};
  double began = harness::steady_seconds();
  std::size_t steps = 0;  // of this epoch
  for (std::size_t step = 0; step < steps_; ++step) {
    shown(step);
    const Batch now = batch(step);
    strategy.load(now);
    bench::run(strategy, replicas, Work::step);
    losses.push_back(strategy.loss() / static_cast<double>(now.images.size()));
    epoch.loss += losses.back();
    ++steps;
    if ((step + 1) % sampler_.batches() != 0 && step + 1 != steps_) continue;
    epoch.seconds = harness::steady_seconds() - began;
    epoch.loss /= static_cast<double>(steps);
    strategy.settle();
    epoch.checksums = replicas.checksums();
    if (settings_.test) epoch.accuracy = replicas.accuracy(*settings_.test);
    ended(epoch);
    epoch = {.number = epoch.number + 1};
    steps = 0;
    began = harness::steady_seconds();
  }
  return losses;
}

}  // namespace bench
