// SPDX-License-Identifier: Apache-2.0
// A replica of a model on every device of a point, each with the stream that it works on, or on each a piece of one
// model. The bench drives all replicas in step from one thread; the devices do the work, later. Where each rank is a
// process, the one replica of this process is here, and what is said of all ranks is gathered from the others.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/device/brake.hpp"
#include "harness/device/device.hpp"
#include "harness/world.hpp"
#include "models/checkpoint.hpp"
#include "models/dataset.hpp"
#include "models/model.hpp"

namespace bench {

// The images of one step, dealt out: rank r has the next shards[r] of them.
struct Batch {
  const models::Dataset* data = nullptr;
  std::vector<std::size_t> images = {};  // indices in the data set
  std::vector<std::size_t> shards = {};
};

// Copies images of `data` and their labels to a device, and returns when they are there.
void copy_images(const models::Dataset& data, std::span<const std::size_t> images, harness::Stream& stream, float* to,
                 std::uint8_t* labels);

// What each device has of the network: all of it, some of its layers, or a share of its linear layers beside all the
// others.
enum class Piece { replica, stage, share };

// What is unusual about a point.
struct Conditions {
  int accumulate = 1;            // micro-batches of a step; gradients of all but the last are kept local
  int slow_rank = -1;            // this rank computes everything...
  double slow_factor = 1;        // ...this much more slowly, by work that nobody needs
  bool shares_momentum = false;  // each rank has memory for its share of the momentum alone...
  std::size_t bucket_bytes = 0;  // ...in each bucket of gradients of this size (cut())
  Piece piece = Piece::replica;
  std::vector<models::Stage> stages = {};  // of pieces that are stages: each rank's
  int microbatches = 1;                    // and so many batches have their activations in it at once
};

// A layer's pass over the images that was watched: marks of each rank's stream before and after it.
struct Pass {
  int layer = 0;
  bool is_backward = false;
  std::vector<harness::Event> begin, end;
};

// The gradient arena in pieces that are reduced at once: whole parameters, filled up to so many bytes, the first one
// smaller; with 0 each parameter is one.
std::vector<models::Slice> cut(const models::Model& model, std::size_t bucket_bytes);
models::BucketSizes bucket_sizes(std::size_t bytes);

class Replicas {
 public:
  // settings.capacity is that of each replica, of a micro-batch where there are several; its threads are set here.
  // A world of several processes has a rank, with one device, in each; then only whole replicas are there. Throws
  // harness::Error for a network that cannot be cut for so many devices.
  Replicas(harness::Devices& devices, const std::string& model, models::ModelSettings settings,
           const Conditions& conditions = {}, harness::World* world = nullptr);
  // Waits for what was issued, which works in the models' memory: somebody may have thrown in the middle of a step.
  ~Replicas();
  Replicas(const Replicas&) = delete;
  Replicas& operator=(const Replicas&) = delete;

  // Of the whole job, and of this process. Streams and models are numbered among those that are here.
  int ranks() const { return world_ ? world_->size() : here(); }
  int here() const { return devices_.size(); }
  int rank_of(int replica) const { return replica + (world_ ? world_->rank() : 0); }
  harness::World* world() const { return world_; }  // null: all ranks are here
  harness::Devices& devices() const { return devices_; }
  harness::Stream& stream(int replica) const { return *streams_[replica]; }
  models::Model& model(int replica = 0) const { return *models_[replica]; }
  std::size_t size() const { return model().size(); }  // elements of an arena of the first one here

  // Puts each rank's shard where its replica reads it, and returns when it is there.
  void load(const Batch& batch);
  // Only tells how many images each rank has, where a step brings them itself.
  void deal(const Batch& batch);
  int images(int rank) const { return shards_[rank]; }  // of all ranks
  std::size_t images() const;                           // over all ranks

  bool accumulates() const { return conditions_.accumulate > 1; }
  // All micro-batches but the last one, forward and backward; what follows is on the last. Waits for the devices.
  void accumulate();

  // Issues a replica's compute, which is slow where it should be.
  void compute(int replica, const std::function<void()>& issue) const;
  // Issued for all ranks, on the loaded batch. Not of pieces that are stages.
  void forward();
  void forward(int layer);
  // From the last layer to the first; after each, `filled` is given the slice of the gradients that is now final on
  // every rank: with what the earlier micro-batches left there.
  void backward(const std::function<void(models::Slice)>& filled = {});
  models::Slice backward(int layer);
  void update(const models::Sgd& how);
  // Of each replica, only this part.
  void update(const models::Sgd& how, const std::function<models::Slice(int replica)>& part);

  // A timed mark on each replica's stream.
  std::vector<harness::Event> mark() const;
  // Has every layer's pass watched until unwatch(), which gives them in their order.
  void watch() { passes_.emplace(); }
  std::vector<Pass> unwatch();

  // Waits for all replicas here.
  void sync() const;
  // Waits until every process has come: what follows begins together.
  void meet() const;
  // After a sync: seconds of work that nobody needs which the slow rank has done so far.
  double planted_seconds() const { return brake_ ? brake_->wasted_seconds() : 0; }
  // Seconds from the first device's beginning to the last one's end of what is issued.
  double time(const std::function<void()>& issue) const;

  // These speak with the other processes. After a sync: cross entropy of the last forward pass, summed over all ranks.
  double loss() const;
  // Fraction of `test` that is classified right. Each replica takes its part; of pieces, rank 0's device makes a whole
  // network meanwhile, which takes all.
  double accuracy(const models::Dataset& test);

  // What training changes here, to be put back later; of momentum that is shared out, each replica's share; of a
  // network in pieces, each. `restore` gives all replicas the same, and throws as models::restore does.
  std::vector<float> state(int replica = 0) const;
  void restore(const std::vector<float>& state) const;
  // Of rank 0's replica, or of the network that the pieces make. Both speak with the other processes.
  models::Checkpoint checkpoint(std::map<std::string, std::string> metadata = {}) const;
  void restore(const models::Checkpoint& checkpoint) const;

  // A hash of each rank's parameters; throws harness::Error naming the first tensor that two ranks have whole, but
  // differently. Speaks with the other processes.
  std::vector<std::string> checksums() const;

 private:
  bool in_pieces() const { return conditions_.piece != Piece::replica; }
  // Issues a layer's pass for all replicas.
  void pass(int layer, bool is_backward, const std::function<void()>& issue);
  // Each of the networks takes its part of `test`.
  double fraction_right(std::span<models::Model* const> networks, const models::Dataset& test) const;
  bool shares_momentum() const { return conditions_.shares_momentum && ranks() > 1; }
  std::vector<double> losses() const;  // of the last forward pass, each replica's
  std::vector<float> parameters(int replica) const;
  // A replica's state by name, momentum that is shared out as it was put together there.
  std::vector<models::StateTensor> tensors(int replica, std::vector<float>& momentum) const;
  // Momentum that is shared out, put together; else nothing.
  std::vector<float> gather_momentum() const;
  void scatter_momentum(const std::vector<float>& whole, int replica) const;
  // Puts a micro-batch in place; its number.
  void take(int part);

  harness::Devices& devices_;
  harness::World* const world_;  // null: all ranks are here
  std::vector<std::unique_ptr<harness::Stream>> streams_;
  const std::string name_;
  const models::ModelSettings whole_;  // of a network that only evaluates
  std::vector<std::unique_ptr<models::Model>> models_;
  std::unique_ptr<harness::Brake> brake_;  // of the slow rank, where there is one
  Conditions conditions_;
  std::vector<int> shards_;  // images of each rank in the loaded batch
  std::vector<int> part_;    // and in the micro-batch that is in place
  // Where there are several micro-batches, a rank's shard and the gradients of the earlier ones.
  std::vector<harness::Buffer> inbox_images_, inbox_labels_, earlier_gradients_;
  bool last_part_ = true;
  std::vector<std::vector<double>> earlier_losses_;
  std::size_t capacity_;
  std::optional<std::vector<Pass>> passes_;  // while they are watched
};

}  // namespace bench
