// SPDX-License-Identifier: Apache-2.0
// The textbook's way: when backward has ended everywhere, one all-reduce for each parameter, then every device updates
// its own replica. "Dive into Deep Learning" (Zhang et al. 2021), the section on training on multiple GPUs.
#include "bench/training/reductions.hpp"
#include "bench/training/strategy.hpp"

namespace bench {

namespace {

class Scratch : public Strategy {
 public:
  Scratch(Replicas& replicas, const StrategySettings& settings)
      : Strategy(replicas, settings), parameters_(replicas, cut(replicas.model(), 0), settings) {}

  void issue(Step& step) override {
    if (replicas_.accumulates()) step.compute("accumulate", [&] { replicas_.accumulate(); });
    step.compute("forward", [&] { replicas_.forward(); });
    step.compute("backward", [&] { replicas_.backward(); });
    step.communicate("all_reduce", [&] { parameters_.finish(); });
    step.compute("update", [&] { replicas_.update(sgd()); });
  }

  void sync() override {
    Strategy::sync();
    parameters_.sync();
  }
  std::vector<models::Slice> reductions() const override { return parameters_.slices(); }
  std::vector<Reductions*> collectives() override { return {&parameters_}; }
  std::optional<std::size_t> bytes_moved() const override { return parameters_.bytes_moved(); }

 private:
  Reductions parameters_;
};

}  // namespace

std::unique_ptr<Strategy> make_scratch(Replicas& replicas, const StrategySettings& settings) {
  return std::make_unique<Scratch>(replicas, settings);
}

}  // namespace bench
