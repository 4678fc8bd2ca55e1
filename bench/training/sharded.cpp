// SPDX-License-Identifier: Apache-2.0
// Every device updates one slice of each bucket: while backward goes on the gradients are reduced to where their slice
// is updated, and when all are there the new parameters are gathered from the devices. As many bytes move as in an
// all-reduce; the update is shared out, and the momentum with it. The first stage of ZeRO, for optimizer states:
// Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models" (SC 2020).
#include "bench/training/reductions.hpp"
#include "bench/training/strategy.hpp"

namespace bench {

namespace {

using allreduce::Collective;

class Sharded : public Strategy {
 public:
  Sharded(Replicas& replicas, const StrategySettings& settings)
      : Strategy(replicas, settings),
        gradients_(replicas, cut(replicas.model(), settings.bucket_bytes), settings, Collective::reduce_scatter),
        parameters_(replicas, gradients_.slices(), settings, Collective::all_gather) {}

  void issue(Step& step) override {
    if (replicas_.accumulates()) step.compute("accumulate", [&] { replicas_.accumulate(); });
    step.compute("forward", [&] { replicas_.forward(); });
    step.compute("backward", [&] {
      replicas_.backward([&](models::Slice filled) {
        if (settings_.overlap && step.communicates()) gradients_.start(filled);
      });
    });
    step.communicate("reduce_scatter", [&] { gradients_.finish(); });
    step.compute("update", [&] {
      for (const models::Slice& bucket : gradients_.slices()) {
        replicas_.update(sgd(), [&](int replica) { return own(replica, bucket); });
      }
    });
    step.communicate("all_gather", [&] { parameters_.finish(); });
  }

  void sync() override {
    Strategy::sync();
    gradients_.sync();
    parameters_.sync();
  }
  std::vector<models::Slice> reductions() const override { return gradients_.slices(); }
  std::vector<Reductions*> collectives() override { return {&gradients_, &parameters_}; }
  std::optional<std::size_t> bytes_moved() const override {
    if (!gradients_.bytes_moved()) return std::nullopt;
    return *gradients_.bytes_moved() + *parameters_.bytes_moved();
  }

 private:
  // The slice of a bucket that the collectives' schedules give the rank of a replica.
  models::Slice own(int replica, const models::Slice& bucket) const {
    const models::Slice part = models::slice_of({replicas_.rank_of(replica), replicas_.ranks()}, bucket.count);
    return {bucket.offset + part.offset, part.count};
  }

  Reductions gradients_;  // each to the rank that updates with it
  Reductions parameters_;
};

}  // namespace

std::unique_ptr<Strategy> make_sharded(Replicas& replicas, const StrategySettings& settings) {
  return std::make_unique<Sharded>(replicas, settings);
}

}  // namespace bench
