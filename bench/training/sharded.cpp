// SPDX-License-Identifier: Apache-2.0
// Every device updates one slice of the parameters: the gradients are reduced to where their slice is updated, and the
// new parameters are gathered from there. As many bytes move as in an all-reduce, and the update is shared out; it is
// the first two stages of ZeRO, without buckets: Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training
// Trillion Parameter Models" (SC 2020).
#include "bench/training/reductions.hpp"
#include "bench/training/strategy.hpp"

namespace bench {

namespace {

using allreduce::Collective;

class Sharded : public Strategy {
 public:
  Sharded(Replicas& replicas, const StrategySettings& settings)
      : Strategy(replicas, settings),
        gradients_(replicas, {{0, replicas.size()}}, settings, Collective::reduce_scatter),
        parameters_(replicas, {{0, replicas.size()}}, settings, Collective::all_gather) {}

  void issue(Step& step) override {
    if (replicas_.accumulates()) step.compute("accumulate", [&] { replicas_.accumulate(); });
    step.compute("forward", [&] { replicas_.forward(); });
    step.compute("backward", [&] { replicas_.backward(); });
    step.communicate("reduce_scatter", [&] { gradients_.finish(); });
    step.compute("update", [&] { replicas_.update(sgd(), [&](int rank) { return own(rank); }); });
    step.communicate("all_gather", [&] { parameters_.finish(); });
  }

  void sync() override {
    Strategy::sync();
    gradients_.sync();
    parameters_.sync();
  }
  std::vector<models::Slice> reductions() const override { return gradients_.slices(); }
  std::size_t bytes_moved() const override { return gradients_.bytes_moved() + parameters_.bytes_moved(); }
  // Momentum is where it is used: each device's slice of it is brought to the first replica, which stands for all.
  void settle() override {
    const auto to = replicas_.model().momentum();
    for (int rank = 1; rank < replicas_.ranks() && !to.empty(); ++rank) {
      const auto [offset, count] = own(rank);
      const auto from = replicas_.model(rank).momentum().subspan(offset, count);
      replicas_.stream(0).copy(from.data(), to.data() + offset, from.size_bytes());
    }
    replicas_.sync();
  }

 private:
  models::Slice own(int rank) const {
    const auto begin = [&](int slice) { return allreduce::slice_begin(replicas_.size(), replicas_.ranks(), slice); };
    return {begin(rank), begin(rank + 1) - begin(rank)};
  }

  Reductions gradients_;  // each to the rank that updates with it
  Reductions parameters_;
};

}  // namespace

std::unique_ptr<Strategy> make_sharded(Replicas& replicas, const StrategySettings& settings) {
  return std::make_unique<Sharded>(replicas, settings);
}

}  // namespace bench
