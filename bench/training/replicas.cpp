// SPDX-License-Identifier: Apache-2.0
#include "bench/training/replicas.hpp"

#include <algorithm>
#include <cstring>

#include "allreduce/algorithms.hpp"
#include "harness/clock.hpp"
#include "models/bucket.hpp"
#include "models/sha256.hpp"

namespace bench {

using harness::Event;
using harness::Timing;

Replicas::Replicas(harness::Devices& devices, const models::Dataset& data, const TrainingSettings& settings)
    : devices_(devices),
      data_(data),
      settings_(settings),
      sampler_(data.size(), settings.global_batch, devices.size(), settings.order, settings.replica.seed) {
  settings_.replica.threads = devices.threads();
  settings_.replica.capacity = static_cast<int>((settings.global_batch + devices.size() - 1) / devices.size());
  for (int rank = 0; rank < ranks(); ++rank) {
    streams_.push_back(devices[rank].make_stream());
    models_.push_back(models::make_model(settings.model, *streams_.back(), settings_.replica));
  }
  shard_.assign(devices.size(), 0);
  plan();
  if (ranks() == 1) return;
  for (const models::Slice& slice : reductions_) {
    std::vector<std::byte*> gradients;
    for (const auto& model : models_)
      gradients.push_back(reinterpret_cast<std::byte*>(model->gradients() + slice.offset));
    programs_.push_back(prepare(std::move(gradients), slice.count, harness::Dtype::f32));
  }
}

Replicas::~Replicas() = default;

// Cuts the gradient arena into what is reduced at once: a tensor each, or buckets of whole tensors.
void Replicas::plan() {
  const std::size_t bytes = settings_.strategy == "scratch" ? 0 : settings_.bucket_bytes;
  const models::BucketSizes sizes{bytes, std::min(bytes, models::BucketSizes{}.first_bytes)};
  for (const models::Bucket& bucket : models::buckets(models_[0]->parameter_table(), sizes)) {
    reductions_.push_back(bucket.slice);
  }
}

std::unique_ptr<allreduce::Program> Replicas::prepare(std::vector<std::byte*> data, std::size_t count,
                                                      harness::Dtype dtype) {
  const auto* algorithm = allreduce::find_algorithm(settings_.algorithm);
  if (!algorithm) throw harness::Error("there is no algorithm " + settings_.algorithm);
  return allreduce::prepare_streams(
      algorithm->build({ranks()}),
      {&devices_, count, dtype, harness::Op::sum, allreduce::Launch::eager, {{std::move(data)}}});
}

std::size_t Replicas::load(std::size_t epoch, std::size_t batch) {
  std::size_t images = 0;
  for (int rank = 0; rank < ranks(); ++rank) {
    const auto shard = sampler_.shard(epoch, batch, rank);
    shard_[rank] = static_cast<int>(shard.size());
    images += shard.size();
    models::Model& model = *models_[rank];
    for (std::size_t i = 0; i < shard.size(); ++i) {
      data_.load(shard[i], model.images() + i * models::Dataset::pixels, model.labels() + i);
    }
  }
  return images;
}

// Starts the reductions that lie wholly in what backward has filled.
void Replicas::reduce_ready(models::Slice filled, std::size_t& next, std::vector<std::vector<Event>>& done) {
  const std::size_t end = filled.offset + filled.count;
  while (next < programs_.size() && reductions_[next].offset + reductions_[next].count <= end) {
    std::vector<Event> ready;
    for (const auto& stream : streams_) ready.push_back(stream->record());
    done.push_back(programs_[next++]->enqueue(ready));
  }
}

double Replicas::run(Work work) {
  const double begin = harness::steady_seconds();
  const bool computes = work != Work::communication;
  const bool communicates = work != Work::compute;
  const bool early = settings_.strategy == "distributed" && settings_.overlap;
  std::vector<std::array<Event, 4>> marks(streams_.size());
  const auto mark = [&](std::size_t phase) {
    for (int rank = 0; rank < ranks(); ++rank) marks[rank][phase] = streams_[rank]->record(Timing::on);
  };
  std::vector<std::vector<Event>> done;
  std::size_t next = 0;
  mark(0);
  if (computes) {
    for (int rank = 0; rank < ranks(); ++rank) models_[rank]->forward(shard_[rank]);
  }
  mark(1);
  if (computes) {
    for (int layer = models_[0]->layers() - 1; layer >= 0; --layer) {
      models::Slice filled;
      for (int rank = 0; rank < ranks(); ++rank) filled = models_[rank]->backward(layer, shard_[rank]);
      if (communicates && early) reduce_ready(filled, next, done);
    }
  }
  mark(2);
  if (communicates) reduce_ready({0, size()}, next, done);
  for (const auto& events : done) {
    for (int rank = 0; rank < ranks(); ++rank) streams_[rank]->wait(events[rank]);
  }
  std::size_t images = 0;
  for (const int part : shard_) images += part;
  mark(3);
  if (computes) {
    const auto rate = static_cast<float>(settings_.lr / static_cast<double>(images));
    for (int rank = 0; rank < ranks(); ++rank) models_[rank]->step(rate);
  }
  std::vector<Event> ends;
  for (const auto& stream : streams_) ends.push_back(stream->record(Timing::on));
  for (const auto& stream : streams_) stream->sync();
  for (const auto& program : programs_) program->sync();
  const double seconds = harness::steady_seconds() - begin;
  phases_ = {};
  for (int rank = 0; rank < ranks(); ++rank) {
    const auto& at = marks[rank];
    phases_.forward = std::max(phases_.forward, devices_.seconds_between(at[0], at[1]));
    phases_.backward = std::max(phases_.backward, devices_.seconds_between(at[1], at[2]));
    phases_.optimizer = std::max(phases_.optimizer, devices_.seconds_between(at[3], ends[rank]));
  }
  return seconds;
}

double Replicas::mean_loss() const {
  double loss = 0;
  int images = 0;
  for (int rank = 0; rank < ranks(); ++rank) {
    loss += models_[rank]->outcome().loss;
    images += shard_[rank];
  }
  return loss / images;
}

double Replicas::accuracy(const models::Dataset& test) {
  std::vector<std::int32_t> correct(devices_.size(), 0);
  const std::size_t capacity = settings_.replica.capacity;
  const auto border = [&](int rank) { return test.size() * rank / ranks(); };
  const std::size_t longest = (test.size() + ranks() - 1) / ranks();
  for (std::size_t offset = 0; offset < longest; offset += capacity) {
    const auto images_of = [&](int rank) {
      return static_cast<int>(std::min(capacity, border(rank + 1) - std::min(border(rank) + offset, border(rank + 1))));
    };
    for (int rank = 0; rank < ranks(); ++rank) {
      models::Model& model = *models_[rank];
      for (int i = 0; i < images_of(rank); ++i) {
        test.load(border(rank) + offset + i, model.images() + std::size_t(i) * models::Dataset::pixels,
                  model.labels() + i);
      }
      model.forward(images_of(rank));
    }
    for (int rank = 0; rank < ranks(); ++rank) {
      streams_[rank]->sync();
      correct[rank] += models_[rank]->outcome().correct;
    }
  }
  if (ranks() > 1) {
    std::vector<harness::Buffer> memory;
    std::vector<std::byte*> data;
    for (int rank = 0; rank < ranks(); ++rank) {
      memory.push_back(devices_[rank].allocate(sizeof(std::int32_t)));
      data.push_back(memory.back().data());
      streams_[rank]->copy(&correct[rank], data.back(), sizeof(std::int32_t));
      streams_[rank]->sync();
    }
    const auto program = prepare(data, 1, harness::Dtype::i32);
    program->enqueue();
    program->sync();
    streams_[0]->copy(data[0], &correct[0], sizeof(std::int32_t));
    streams_[0]->sync();
  }
  return static_cast<double>(correct[0]) / static_cast<double>(test.size());
}

std::vector<float> Replicas::parameters() const {
  return {models_[0]->parameters(), models_[0]->parameters() + size()};
}

void Replicas::restore(const std::vector<float>& parameters) {
  for (const auto& model : models_) std::copy(parameters.begin(), parameters.end(), model->parameters());
}

std::vector<std::string> Replicas::checksums() const {
  std::vector<std::string> sums;
  for (int rank = 0; rank < ranks(); ++rank) {
    const float* parameters = models_[rank]->parameters();
    for (const models::Parameter& tensor : models_[rank]->parameter_table()) {
      if (std::memcmp(parameters + tensor.offset, models_[0]->parameters() + tensor.offset,
                      tensor.count * sizeof(float)) != 0) {
        throw harness::Error("the replicas of ranks 0 and " + std::to_string(rank) + " differ, first in " +
                             tensor.name);
      }
    }
    sums.push_back(models::sha256({reinterpret_cast<const std::uint8_t*>(parameters), size() * sizeof(float)}));
  }
  return sums;
}

}  // namespace bench
