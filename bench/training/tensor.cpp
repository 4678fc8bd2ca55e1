// SPDX-License-Identifier: Apache-2.0
// Tensor parallelism: every device has a part of each linear layer, and all the other layers whole. All see the whole
// batch. Of two linear layers in a row the first is cut by columns (what it puts out) and the next by rows (what it
// reads), so that one all-reduce of activations joins both, and on the way back one of their gradients; one alone is
// cut by rows. No gradient of a parameter is communicated: the layers that are whole compute the same everywhere.
// Shoeybi et al., "Megatron-LM: Training Multi-Billion Parameter Language Models Using Model Parallelism" (2019).
#include "allreduce/algorithms.hpp"
#include "bench/training/reductions.hpp"
#include "bench/training/strategy.hpp"

namespace bench {

namespace {

class Tensor : public Strategy {
 public:
  Tensor(Replicas& replicas, const StrategySettings& settings) : Strategy(replicas, settings) {
    for (const models::Shared& layers : replicas.model().shared()) {
      joints_.push_back(
          {layers,
           add_up([&](int rank) { return model(rank).output(layers.last).values; }, model(0).output(layers.last).bytes),
           nullptr});
      const models::Extent read = model(0).input_of(layers.first);
      if (!read.gradients) continue;
      joints_.back().backward =
          add_up([&](int rank) { return model(rank).input_of(layers.first).gradients; }, read.bytes);
    }
  }

  void load(const Batch& batch) override {
    Batch everywhere{batch.data};
    for (int rank = 0; rank < replicas_.ranks(); ++rank) {
      everywhere.images.insert(everywhere.images.end(), batch.images.begin(), batch.images.end());
      everywhere.shards.push_back(batch.images.size());
    }
    replicas_.load(everywhere);
  }

  void issue(Step& step) override {
    int next = 0;
    const auto forward = [&](int end) {
      step.compute("forward", [&] {
        for (; next < end; ++next) replicas_.forward(next);
      });
    };
    for (const Joint& joint : joints_) {
      forward(joint.layers.last + 1);
      step.communicate("reduce_activations", [&] { run(*joint.forward); });
    }
    forward(model(0).layers());

    int done = model(0).layers();  // backward, from the last to this one
    const auto backward = [&](int first) {
      step.compute("backward", [&] {
        while (done > first) replicas_.backward(--done);
      });
    };
    for (auto joint = joints_.rbegin(); joint != joints_.rend(); ++joint) {
      backward(joint->layers.first);
      if (joint->backward) step.communicate("reduce_gradients", [&] { run(*joint->backward); });
    }
    if (done > 0) backward(0);
    step.compute("update", [&] {
      models::Sgd how = sgd();
      how.images = replicas_.images(0);
      replicas_.update(how);
    });
  }

  void sync() override {
    Strategy::sync();
    for (const Joint& joint : joints_) {
      joint.forward->sync();
      if (joint.backward) joint.backward->sync();
    }
  }
  // All have the same.
  double loss() const override { return model(0).outcome().loss; }
  std::optional<std::size_t> bytes_moved() const override { return bytes_moved_; }

 private:
  using ProgramPointer = std::unique_ptr<allreduce::Program>;
  struct Joint {
    models::Shared layers;
    ProgramPointer forward;   // over what these layers put out
    ProgramPointer backward;  // over the gradients of what they read; null where that is the images
  };

  models::Model& model(int rank) const { return replicas_.model(rank); }

  // Always of a whole batch: what lies behind the last image of a smaller one is added up for nobody.
  ProgramPointer add_up(const std::function<float*(int rank)>& where, std::size_t bytes) {
    const auto* algorithm = allreduce::find_algorithm(settings_.algorithm);
    if (!algorithm) throw harness::Error("there is no algorithm " + settings_.algorithm);
    const allreduce::Schedule schedule = algorithm->build({replicas_.ranks()});
    const std::size_t count = bytes / sizeof(float);
    std::vector<std::byte*> vectors;
    for (int rank = 0; rank < replicas_.ranks(); ++rank) {
      vectors.push_back(reinterpret_cast<std::byte*>(where(rank)));
    }
    bytes_moved_ += bytes_crossing(schedule, count, sizeof(float));
    const auto launch = records() ? allreduce::Launch::eager : settings_.launch;
    return allreduce::prepare(
        schedule, {&replicas_.devices(), count, harness::Dtype::f32, harness::Op::sum, launch, {{std::move(vectors)}}});
  }

  // Every rank goes on when it has the sum.
  void run(allreduce::Program& program) const {
    std::vector<harness::Event> ready;
    for (int rank = 0; rank < replicas_.ranks(); ++rank) ready.push_back(replicas_.stream(rank).record());
    const auto done = program.enqueue(ready);
    for (int rank = 0; rank < replicas_.ranks(); ++rank) replicas_.stream(rank).wait(done[rank]);
  }

  std::size_t bytes_moved_ = 0;
  std::vector<Joint> joints_;
};

}  // namespace

std::unique_ptr<Strategy> make_tensor(Replicas& replicas, const StrategySettings& settings) {
  return std::make_unique<Tensor>(replicas, settings);
}

}  // namespace bench
