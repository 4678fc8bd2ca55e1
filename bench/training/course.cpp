// SPDX-License-Identifier: Apache-2.0
#include "bench/training/course.hpp"

#include <cmath>
#include <numeric>

#include "harness/clock.hpp"

namespace bench {

namespace {

constexpr double seconds_between_checkpoints = 60;

}  // namespace

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

std::vector<double> Course::run(Strategy& strategy, Replicas& replicas, const CourseHooks& hooks) {
  std::vector<double> losses = settings_.losses;
  const bool at_the_end = !losses.empty() && losses.size() == steps_;
  double began = losses.size() % batches() == 0 && !at_the_end ? harness::steady_seconds() : std::nan("");
  double kept = harness::steady_seconds();
  const auto keep = [&] {
    if (hooks.keep) hooks.keep(losses);
    kept = harness::steady_seconds();
  };
  const auto is_due = [&] {  // for all processes alike
    const double since = harness::steady_seconds() - kept;
    return (replicas.world() ? replicas.world()->max(since) : since) > seconds_between_checkpoints;
  };
  const auto end_epoch = [&] {
    const std::size_t done = (losses.size() - 1) / batches();  // epochs before this one
    const auto first = losses.begin() + static_cast<std::ptrdiff_t>(done * batches());
    Epoch epoch{.number = static_cast<int>(done) + 1, .seconds = harness::steady_seconds() - began};
    epoch.loss = std::accumulate(first, losses.end(), 0.0) / static_cast<double>(losses.end() - first);
    strategy.settle();
    epoch.checksums = replicas.checksums();
    if (settings_.test) epoch.accuracy = replicas.accuracy(*settings_.test);
    hooks.ended(epoch);
    keep();
    began = harness::steady_seconds();
  };
  if (at_the_end) end_epoch();
  while (losses.size() < steps_) {
    hooks.shown(losses.size());
    const Batch now = batch(losses.size());
    strategy.load(now);
    bench::run(strategy, replicas, Work::step);
    losses.push_back(strategy.loss() / static_cast<double>(now.images.size()));
    if (losses.size() % batches() == 0 || losses.size() == steps_) {
      end_epoch();
    } else if (hooks.keep && is_due()) {
      strategy.settle();
      keep();
    }
  }
  return losses;
}

}  // namespace bench
