// SPDX-License-Identifier: Apache-2.0
#include "bench/replicas.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "models/sha256.hpp"

namespace bench {

Replicas::Replicas(harness::Devices& devices, const std::string& model, models::ModelSettings settings)
    : devices_(devices), shards_(devices.size(), 0), capacity_(settings.capacity) {
  settings.threads = devices.threads();
  for (int rank = 0; rank < ranks(); ++rank) {
    streams_.push_back(devices[rank].make_stream());
    models_.push_back(models::make_model(model, *streams_.back(), settings));
  }
}

std::size_t Replicas::images() const { return std::accumulate(shards_.begin(), shards_.end(), std::size_t{0}); }

void Replicas::load(int rank, const models::Dataset& data, const std::function<std::size_t(std::size_t)>& image_of,
                    std::size_t count) const {
  std::vector<float> images(count * data.image_size);
  std::vector<std::uint8_t> labels(count);
  for (std::size_t i = 0; i < count; ++i) {
    data.load(image_of(i), images.data() + i * data.image_size, labels.data() + i);
  }
  stream(rank).copy(images.data(), model(rank).images(), images.size() * sizeof(float));
  stream(rank).copy(labels.data(), model(rank).labels(), labels.size());
  stream(rank).sync();
}

void Replicas::load(const Batch& batch) {
  std::size_t first = 0;
  for (int rank = 0; rank < ranks(); ++rank) {
    load(
        rank, *batch.data, [&](std::size_t i) { return batch.images[first + i]; }, batch.shards[rank]);
    shards_[rank] = static_cast<int>(batch.shards[rank]);
    first += batch.shards[rank];
  }
}

void Replicas::forward() {
  for (int rank = 0; rank < ranks(); ++rank) model(rank).forward(shards_[rank]);
}

void Replicas::forward(int layer) {
  for (int rank = 0; rank < ranks(); ++rank) model(rank).forward(layer, shards_[rank]);
}

void Replicas::backward(const std::function<void(models::Slice)>& filled) {
  for (int layer = model().layers() - 1; layer >= 0; --layer) {
    const models::Slice slice = backward(layer);
    if (filled) filled(slice);
  }
}

models::Slice Replicas::backward(int layer) {
  models::Slice filled;
  for (int rank = 0; rank < ranks(); ++rank) filled = model(rank).backward(layer, shards_[rank]);
  return filled;
}

void Replicas::update(double rate) {
  for (int rank = 0; rank < ranks(); ++rank) model(rank).step({.lr = rate});
}

void Replicas::sync() const {
  for (const auto& stream : streams_) stream->sync();
}

double Replicas::time(const std::function<void()>& issue) const {
  const auto begin = stream(0).record(harness::Timing::on);
  for (int rank = 1; rank < ranks(); ++rank) stream(rank).wait(begin);
  issue();
  for (int rank = 1; rank < ranks(); ++rank) stream(0).wait(stream(rank).record());
  const auto end = stream(0).record(harness::Timing::on);
  sync();
  return devices_.seconds_between(begin, end);
}

double Replicas::loss() const {
  double loss = 0;
  for (const auto& model : models_) loss += model->outcome().loss;
  return loss;
}

double Replicas::accuracy(const models::Dataset& test) {
  // Batch norm's running statistics are the first replica's for all.
  for (int rank = 1; rank < ranks(); ++rank) {
    const auto from = model().statistics(), to = model(rank).statistics();
    stream(rank).copy(from.data(), to.data(), from.size_bytes());
  }
  const auto border = [&](int rank) { return test.size() * rank / ranks(); };
  const std::size_t longest = (test.size() + ranks() - 1) / ranks();
  std::size_t correct = 0;
  for (std::size_t done = 0; done < longest; done += capacity_) {
    for (int rank = 0; rank < ranks(); ++rank) {
      const std::size_t first = std::min(border(rank) + done, border(rank + 1));
      const std::size_t count = std::min(capacity_, border(rank + 1) - first);
      load(
          rank, test, [&](std::size_t i) { return first + i; }, count);
      model(rank).evaluate(static_cast<int>(count));
    }
    sync();
    for (const auto& model : models_) correct += model->outcome().correct;
  }
  return static_cast<double>(correct) / static_cast<double>(test.size());
}

std::vector<float> Replicas::state(int rank) const {
  const auto statistics = model(rank).statistics();
  std::vector<float> state(size() + statistics.size());
  stream(rank).copy(model(rank).parameters(), state.data(), size() * sizeof(float));
  stream(rank).copy(statistics.data(), state.data() + size(), statistics.size_bytes());
  stream(rank).sync();
  return state;
}

void Replicas::restore(const std::vector<float>& state) const {
  for (int rank = 0; rank < ranks(); ++rank) {
    const auto statistics = model(rank).statistics();
    stream(rank).copy(state.data(), model(rank).parameters(), size() * sizeof(float));
    stream(rank).copy(state.data() + size(), statistics.data(), statistics.size_bytes());
  }
  sync();
}

std::vector<std::string> Replicas::checksums() const {
  std::vector<std::string> sums;
  const std::vector<float> first = state(0);
  for (int rank = 0; rank < ranks(); ++rank) {
    const std::vector<float> own = state(rank);
    for (const models::Parameter& tensor : model().parameter_table()) {
      if (std::memcmp(own.data() + tensor.offset, first.data() + tensor.offset, tensor.count * sizeof(float)) == 0) {
        continue;
      }
      throw harness::Error("the replicas of ranks 0 and " + std::to_string(rank) + " differ, first in " + tensor.name);
    }
    sums.push_back(models::sha256({reinterpret_cast<const std::uint8_t*>(own.data()), size() * sizeof(float)}));
  }
  return sums;
}

}  // namespace bench
