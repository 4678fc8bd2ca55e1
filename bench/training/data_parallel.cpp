// SPDX-License-Identifier: Apache-2.0
// nn.DataParallel's way, step by step: one device holds the batch and the parameters that count. Each step copies them
// out, gathers the logits there, has loss and update there, and adds up the gradients there. Everything passes through
// that root, which works while the others wait. PyTorch's torch/nn/parallel (replicate, scatter_gather,
// parallel_apply), as described in Li et al. (VLDB 2020), section 2.1.
#include "bench/training/strategy.hpp"
#include "harness/device/cuda.hpp"

namespace bench {

namespace {

constexpr int root = 0;

class DataParallel : public Strategy {
 public:
  DataParallel(Replicas& replicas, const StrategySettings& settings)
      : Strategy(replicas, settings),
        pixels_(replicas.model().input().size()),
        classes_(replicas.model().layer_shape(loss_layer() - 1).size()),
        images_(allocate<float>(settings.global_batch * pixels_)),
        labels_(allocate<std::uint8_t>(settings.global_batch)),
        logits_(allocate<float>(settings.global_batch * classes_)),
        gradients_(allocate<float>(settings.global_batch * classes_)),
        arrived_(allocate<float>(replicas.ranks() > 1 ? replicas.size() : 0)),
        backend_(models::find_backend(harness::is_gpu(stream(root).device()) ? "cudnn" : "plain")
                     .make({stream(root), static_cast<int>(settings.global_batch)})),
        outcome_(backend_->make_outcome()),
        loss_(backend_->cross_entropy(backend_->input({static_cast<int>(classes_)}, logits_.at(0), gradients_.at(0)),
                                      labels_.at(0), *outcome_)) {}

  void load(const Batch& batch) override {
    replicas_.deal(batch);
    copy_images(*batch.data, batch.images, stream(root), images_.at(0), labels_.at(0));
  }

  void issue(Step& step) override {
    step.communicate("replicate", [&] { replicate(); });
    step.communicate("scatter", [&] {
      from_root([&](int rank, std::size_t first, std::size_t images) {
        stream(rank).copy(images_.at(first * pixels_), model(rank).images(), images * pixels_ * sizeof(float));
      });
    });
    step.compute("forward", [&] {
      for (int layer = 0; layer < loss_layer(); ++layer) replicas_.forward(layer);
    });
    step.communicate("gather", [&] {
      to_root([&](int rank, std::size_t first, std::size_t images) {
        stream(root).copy(logits_of(rank).values, logits_.at(first * classes_), row_bytes(images));
      });
    });
    step.compute("loss", [&] {
      models::issue(stream(root), [this, images = static_cast<int>(replicas_.images())] {
        loss_->forward(images);
        loss_->backward(images);
      });
    });
    step.communicate("scatter_gradients", [&] {
      from_root([&](int rank, std::size_t first, std::size_t images) {
        stream(rank).copy(gradients_.at(first * classes_), logits_of(rank).gradients, row_bytes(images));
      });
    });
    step.compute("backward", [&] {
      for (int layer = loss_layer() - 1; layer >= 0; --layer) replicas_.backward(layer);
    });
    step.communicate("reduce", [&] {
      to_root([&](int rank, std::size_t, std::size_t) {
        if (rank == root) return;
        stream(root).copy(model(rank).gradients(), arrived_.at(0), replicas_.size() * sizeof(float));
        stream(root).reduce(arrived_.at(0), model(root).gradients(), replicas_.size(), {});
      });
    });
    step.compute("update", [&] { model(root).step(sgd()); });
  }

  double loss() const override { return outcome_->loss; }
  std::optional<std::size_t> bytes_moved() const override {
    const std::size_t peers = replicas_.ranks() - 1;
    const std::size_t away = replicas_.images() - replicas_.images(root);  // images of other ranks
    return peers * (2 * replicas_.size() * sizeof(float) + model(root).statistics().size_bytes()) +
           away * pixels_ * sizeof(float) + 2 * row_bytes(away);
  }
  std::vector<std::string> root_phases() const override { return {"gather", "loss", "reduce", "update"}; }
  void settle() override {
    replicate();
    replicas_.sync();
  }

 private:
  // Memory of the root.
  template <typename Element>
  struct Array {
    harness::Buffer memory;
    Element* at(std::size_t index) const { return reinterpret_cast<Element*>(memory.data()) + index; }
  };
  template <typename Element>
  Array<Element> allocate(std::size_t count) const {
    return {replicas_.devices()[root].allocate(count * sizeof(Element))};
  }

  harness::Stream& stream(int rank) const { return replicas_.stream(rank); }
  models::Model& model(int rank) const { return replicas_.model(rank); }
  int loss_layer() const { return model(root).layers() - 1; }
  models::Extent logits_of(int rank) const { return model(rank).output(loss_layer() - 1); }
  std::size_t row_bytes(std::size_t images) const { return images * classes_ * sizeof(float); }

  void replicate() {
    from_root([&](int rank, std::size_t, std::size_t) {
      if (rank == root) return;
      stream(rank).copy(model(root).parameters(), model(rank).parameters(), replicas_.size() * sizeof(float));
      const auto from = model(root).statistics(), to = model(rank).statistics();
      stream(rank).copy(from.data(), to.data(), from.size_bytes());
    });
  }

  // Each rank fetches from the root what is there now. The root goes on at once: it next writes what they read only
  // after it has heard from all of them.
  template <typename Copy>
  void from_root(Copy&& copy) {
    const harness::Event ready = stream(root).record();
    std::size_t first = 0;
    for (int rank = 0; rank < replicas_.ranks(); ++rank) {
      if (rank != root) stream(rank).wait(ready);
      copy(rank, first, std::size_t(replicas_.images(rank)));
      first += replicas_.images(rank);
    }
  }
  // The root fetches from each rank, in their order, what is there now.
  template <typename Copy>
  void to_root(Copy&& copy) {
    std::size_t first = 0;
    for (int rank = 0; rank < replicas_.ranks(); ++rank) {
      if (rank != root) stream(root).wait(stream(rank).record());
      copy(rank, first, std::size_t(replicas_.images(rank)));
      first += replicas_.images(rank);
    }
  }

  std::size_t pixels_, classes_;  // of an image
  Array<float> images_;
  Array<std::uint8_t> labels_;
  Array<float> logits_, gradients_;
  Array<float> arrived_;                      // gradients of another rank
  std::unique_ptr<models::Backend> backend_;  // of the loss
  std::shared_ptr<models::Outcome> outcome_;
  models::LayerPointer loss_;
};

}  // namespace

std::unique_ptr<Strategy> make_data_parallel(Replicas& replicas, const StrategySettings& settings) {
  return std::make_unique<DataParallel>(replicas, settings);
}

}  // namespace bench
