// SPDX-License-Identifier: Apache-2.0
// DistributedDataParallel's way: gradients in buckets, the first one smaller, each reduced as soon as backward has
// filled it on every device, while backward goes on. Li et al., "PyTorch Distributed: Experiences on Accelerating Data
// Parallel Training" (VLDB 2020).
#include "bench/training/reductions.hpp"
#include "bench/training/strategy.hpp"

namespace bench {

namespace {

class Distributed : public Strategy {
 public:
  Distributed(Replicas& replicas, const StrategySettings& settings)
      : Strategy(replicas, settings), buckets_(replicas, cut(replicas.model(), settings.bucket_bytes), settings) {}

  void issue(Step& step) override {
    if (replicas_.accumulates()) step.compute("accumulate", [&] { replicas_.accumulate(); });
    step.compute("forward", [&] { replicas_.forward(); });
    step.compute("backward", [&] {
      replicas_.backward([&](models::Slice filled) {
        if (settings_.overlap && step.communicates()) buckets_.start(filled);
      });
    });
    step.communicate("all_reduce", [&] { buckets_.finish(); });
    step.compute("update", [&] { replicas_.update(sgd()); });
  }

  void sync() override {
    Strategy::sync();
    buckets_.sync();
  }
  std::vector<models::Slice> reductions() const override { return buckets_.slices(); }
  std::vector<Reductions*> collectives() override { return {&buckets_}; }
  std::optional<std::size_t> bytes_moved() const override { return buckets_.bytes_moved(); }

 private:
  Reductions buckets_;
};

}  // namespace

std::unique_ptr<Strategy> make_distributed(Replicas& replicas, const StrategySettings& settings) {
  return std::make_unique<Distributed>(replicas, settings);
}

}  // namespace bench
