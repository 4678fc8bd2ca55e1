// SPDX-License-Identifier: Apache-2.0
// A pipeline: each device has some layers with their parameters, and no other. The batch goes through them in
// micro-batches, so that the devices work on different ones at the same time; each fetches the activations from the
// device before it, and later their gradients from the one behind. All micro-batches go forward, then all backward, and
// keep their activations meanwhile: the schedule of GPipe, without its second forward pass. With as many micro-batches
// as m and s equal stages, each device idles for s - 1 of m + s - 1 turns. Huang et al., "GPipe: Efficient Training of
// Giant Neural Networks using Pipeline Parallelism" (NeurIPS 2019).
#include "bench/training/strategy.hpp"

namespace bench {

namespace {

class Pipeline : public Strategy {
 public:
  Pipeline(Replicas& replicas, const StrategySettings& settings)
      : Strategy(replicas, settings),
        forward_done_(stages(), std::vector<harness::Event>(settings.microbatches)),
        backward_done_(forward_done_) {}

  void load(const Batch& batch) override {
    replicas_.deal(batch);
    const models::Model &first = model(0), &last = model(stages() - 1);
    for (int part = 0; part < settings_.microbatches; ++part) {
      const models::Slice slice = slice_of(part);
      const auto images = std::span(batch.images).subspan(slice.offset, slice.count);
      copy_images(*batch.data, images, stream(0), first.images(part), first.labels(part));
      if (stages() == 1) continue;
      stream(stages() - 1).copy(first.labels(part), last.labels(part), slice.count);
    }
    replicas_.sync();
  }

  void issue(Step& step) override {
    for (int part = 0; part < settings_.microbatches && images(part) > 0; ++part) {
      for (int stage = 0; stage < stages(); ++stage) forward(step, stage, part);
    }
    for (int part = 0; part < settings_.microbatches && images(part) > 0; ++part) {
      for (int stage = stages() - 1; stage >= 0; --stage) backward(step, stage, part);
    }
    step.compute("update", [&] { replicas_.update(sgd()); });
  }

  double loss() const override {
    double sum = 0;
    for (int part = 0; part < settings_.microbatches && images(part) > 0; ++part) {
      sum += model(stages() - 1).outcome(part).loss;
    }
    return sum;
  }
  std::optional<std::size_t> bytes_moved() const override {
    std::size_t bytes = 0;
    for (int stage = 0; stage + 1 < stages(); ++stage) bytes += 2 * row_bytes(stage) * replicas_.images();
    return bytes;
  }

 private:
  int stages() const { return replicas_.ranks(); }
  harness::Stream& stream(int stage) const { return replicas_.stream(stage); }
  models::Model& model(int stage) const { return replicas_.model(stage); }
  // The images of a micro-batch. The first ones are the largest: those of a small batch come first, and the rest is
  // empty.
  models::Slice slice_of(int part) const {
    const std::size_t all = replicas_.images(), parts = settings_.microbatches;
    const std::size_t each = all / parts, more = all % parts, before = part;
    return {before * each + std::min(before, more), each + (before < more ? 1 : 0)};
  }
  int images(int part) const { return static_cast<int>(slice_of(part).count); }
  // Of an image, between a stage and the next.
  std::size_t row_bytes(int stage) const { return model(stage).outlet_shape().size() * sizeof(float); }
  static std::string name_of(int part) { return "micro-batch " + std::to_string(part + 1); }

  void forward(Step& step, int stage, int part) {
    if (stage > 0 && step.communicates()) {
      stream(stage).wait(forward_done_[stage - 1][part]);
      step.communicate("send_activations", stage, name_of(part), [&] {
        stream(stage).copy(model(stage - 1).outlet(part).values, model(stage).inlet(part).values,
                           row_bytes(stage - 1) * images(part));
      });
    }
    step.compute("forward", stage, name_of(part), [&] {
      replicas_.compute(stage, [&] {
        const auto& [first, end] = model(stage).stage();
        for (int layer = first; layer < end; ++layer) model(stage).forward(layer, images(part), part);
      });
    });
    forward_done_[stage][part] = stream(stage).record();
  }

  void backward(Step& step, int stage, int part) {
    if (stage + 1 < stages() && step.communicates()) {
      stream(stage).wait(backward_done_[stage + 1][part]);
      step.communicate("send_gradients", stage, name_of(part), [&] {
        stream(stage).copy(model(stage + 1).inlet(part).gradients, model(stage).outlet(part).gradients,
                           row_bytes(stage) * images(part));
      });
    }
    step.compute("backward", stage, name_of(part), [&] {
      replicas_.compute(stage, [&] {
        const auto how = part == 0 ? models::Gradients::replace : models::Gradients::add;
        const auto& [first, end] = model(stage).stage();
        for (int layer = end - 1; layer >= first; --layer) model(stage).backward(layer, images(part), how, part);
      });
    });
    backward_done_[stage][part] = stream(stage).record();
  }

  // Of each stage and micro-batch.
  std::vector<std::vector<harness::Event>> forward_done_, backward_done_;
};

}  // namespace

std::unique_ptr<Strategy> make_pipeline(Replicas& replicas, const StrategySettings& settings) {
  return std::make_unique<Pipeline>(replicas, settings);
}

}  // namespace bench
