// SPDX-License-Identifier: Apache-2.0
#include "bench/replicas.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "models/sha256.hpp"

namespace bench {

namespace {

models::ModelSettings evaluating(models::ModelSettings settings, int threads) {
  settings.momentum = false;
  settings.threads = threads;
  return settings;
}

}  // namespace

Replicas::Replicas(harness::Devices& devices, const std::string& model, models::ModelSettings settings,
                   const Conditions& conditions)
    : devices_(devices),
      name_(model),
      whole_(evaluating(settings, devices.threads())),
      conditions_(conditions),
      shards_(devices.size(), 0),
      part_(devices.size(), 0),
      capacity_(settings.capacity) {
  settings.threads = devices.threads();
  for (int rank = 0; rank < ranks(); ++rank) {
    if (conditions.shares_momentum) {
      settings.momentum_share = {rank, ranks()};
      settings.buckets = bucket_sizes(conditions.bucket_bytes);
    }
    if (conditions.piece == Piece::share) settings.features = {rank, ranks()};
    if (conditions.piece == Piece::stage) {
      settings.stage = conditions.stages.at(rank);
      settings.parts = conditions.microbatches;
    }
    streams_.push_back(devices[rank].make_stream());
    models_.push_back(models::make_model(model, *streams_.back(), settings));
    if (!accumulates()) continue;
    const std::size_t images = capacity_ * conditions.accumulate;
    inbox_images_.push_back(devices[rank].allocate(images * models_.back()->input().size() * sizeof(float)));
    inbox_labels_.push_back(devices[rank].allocate(images));
    earlier_gradients_.push_back(devices[rank].allocate(size() * sizeof(float)));
  }
  if (conditions.slow_rank >= 0) {
    brake_ = harness::make_brake(stream(conditions.slow_rank), conditions.slow_factor);
  }
}

Replicas::~Replicas() {
  for (const auto& stream : streams_) {
    try {
      stream->sync();
    } catch (const std::exception&) {  // told already, by whoever waited for it
    }
  }
}

models::BucketSizes bucket_sizes(std::size_t bytes) {
  return {bytes, std::min(bytes, models::BucketSizes{}.first_bytes)};
}

std::vector<models::Slice> cut(const models::Model& model, std::size_t bucket_bytes) {
  std::vector<models::Slice> slices;
  for (const auto& bucket : models::buckets(model.parameter_table(), bucket_sizes(bucket_bytes))) {
    slices.push_back(bucket.slice);
  }
  return slices;
}

std::size_t Replicas::images() const { return std::accumulate(shards_.begin(), shards_.end(), std::size_t{0}); }

void copy_images(const models::Dataset& data, std::span<const std::size_t> images, harness::Stream& stream, float* to,
                 std::uint8_t* labels) {
  std::vector<float> pixels(images.size() * data.image_size);
  std::vector<std::uint8_t> classes(images.size());
  for (std::size_t i = 0; i < images.size(); ++i) {
    data.load(images[i], pixels.data() + i * data.image_size, classes.data() + i);
  }
  stream.copy(pixels.data(), to, pixels.size() * sizeof(float));
  stream.copy(classes.data(), labels, classes.size());
  stream.sync();
}

void Replicas::deal(const Batch& batch) {
  std::transform(batch.shards.begin(), batch.shards.end(), shards_.begin(),
                 [](std::size_t images) { return static_cast<int>(images); });
  part_ = shards_;
}

void Replicas::load(const Batch& batch) {
  deal(batch);
  std::size_t first = 0;
  for (int rank = 0; rank < ranks(); ++rank) {
    const auto shard = std::span(batch.images).subspan(first, batch.shards[rank]);
    float* images = accumulates() ? reinterpret_cast<float*>(inbox_images_[rank].data()) : model(rank).images();
    std::uint8_t* labels =
        accumulates() ? reinterpret_cast<std::uint8_t*>(inbox_labels_[rank].data()) : model(rank).labels();
    copy_images(*batch.data, shard, stream(rank), images, labels);
    first += shard.size();
  }
}

void Replicas::take(int part) {
  const auto border = [&](int rank, int before) {
    return static_cast<std::size_t>(shards_[rank]) * before / conditions_.accumulate;
  };
  for (int rank = 0; rank < ranks(); ++rank) {
    const std::size_t first = border(rank, part), images = border(rank, part + 1) - first;
    const std::size_t image_bytes = model(rank).input().size() * sizeof(float);
    stream(rank).copy(inbox_images_[rank].data() + first * image_bytes, model(rank).images(), images * image_bytes);
    stream(rank).copy(inbox_labels_[rank].data() + first, model(rank).labels(), images);
    part_[rank] = static_cast<int>(images);
  }
  last_part_ = part + 1 == conditions_.accumulate;
}

void Replicas::accumulate() {
  earlier_loss_ = 0;
  for (int part = 0; part + 1 < conditions_.accumulate; ++part) {
    take(part);
    forward();
    backward();
    for (int rank = 0; rank < ranks(); ++rank) {
      std::byte* sum = earlier_gradients_[rank].data();
      if (part == 0) {
        stream(rank).copy(model(rank).gradients(), sum, size() * sizeof(float));
      } else {
        stream(rank).reduce(model(rank).gradients(), sum, size(), {});
      }
    }
    sync();  // the loss of a part can be read only then
    for (const auto& model : models_) earlier_loss_ += model->outcome().loss;
  }
  take(conditions_.accumulate - 1);
}

void Replicas::compute(int rank, const std::function<void()>& issue) const {
  if (rank != conditions_.slow_rank) return issue();
  brake_->begin();
  issue();
  brake_->end();
}

std::vector<harness::Event> Replicas::mark() const {
  std::vector<harness::Event> events;
  for (const auto& stream : streams_) events.push_back(stream->record(harness::Timing::on));
  return events;
}

void Replicas::pass(int layer, bool is_backward, const std::function<void()>& issue) {
  if (!passes_) return issue();
  auto begin = mark();
  issue();
  passes_->push_back({layer, is_backward, std::move(begin), mark()});
}

std::vector<Pass> Replicas::unwatch() {
  auto passes = std::move(*passes_);
  passes_.reset();
  return passes;
}

void Replicas::forward() {
  if (passes_) {
    for (int layer = 0; layer < model().layers(); ++layer) forward(layer);
    return;
  }
  for (int rank = 0; rank < ranks(); ++rank) {
    compute(rank, [&] { model(rank).forward(part_[rank]); });
  }
}

void Replicas::forward(int layer) {
  pass(layer, false, [&] {
    for (int rank = 0; rank < ranks(); ++rank) {
      compute(rank, [&] { model(rank).forward(layer, part_[rank]); });
    }
  });
}

void Replicas::backward(const std::function<void(models::Slice)>& filled) {
  for (int layer = model().layers() - 1; layer >= 0; --layer) {
    const models::Slice slice = backward(layer);
    if (filled) filled(slice);
  }
}

models::Slice Replicas::backward(int layer) {
  models::Slice filled;
  pass(layer, true, [&] {
    for (int rank = 0; rank < ranks(); ++rank) {
      compute(rank, [&] { filled = model(rank).backward(layer, part_[rank]); });
      if (!accumulates() || !last_part_) continue;
      const std::byte* earlier = earlier_gradients_[rank].data() + filled.offset * sizeof(float);
      stream(rank).reduce(earlier, model(rank).gradients() + filled.offset, filled.count, {});
    }
  });
  return filled;
}

void Replicas::update(const models::Sgd& how) {
  update(how, [this](int rank) { return models::Slice{0, model(rank).size()}; });
}

void Replicas::update(const models::Sgd& how, const std::function<models::Slice(int rank)>& part) {
  for (int rank = 0; rank < ranks(); ++rank) {
    compute(rank, [&] { model(rank).step(how, part(rank)); });
  }
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
  double loss = earlier_loss_;
  for (const auto& model : models_) loss += model->outcome().loss;
  return loss;
}

double Replicas::accuracy(const models::Dataset& test) {
  if (in_pieces()) {
    const auto whole = models::make_model(name_, stream(0), whole_);
    models::restore(checkpoint(), whole->state(), stream(0));
    return fraction_right({{whole.get()}}, test);
  }
  // Batch norm's running statistics are the first replica's for all.
  for (int rank = 1; rank < ranks(); ++rank) {
    const auto from = model().statistics(), to = model(rank).statistics();
    stream(rank).copy(from.data(), to.data(), from.size_bytes());
  }
  std::vector<models::Model*> networks;
  for (const auto& model : models_) networks.push_back(model.get());
  return fraction_right(networks, test);
}

double Replicas::fraction_right(std::span<models::Model* const> networks, const models::Dataset& test) const {
  const std::size_t parts = networks.size();
  const auto border = [&](std::size_t part) { return test.size() * part / parts; };
  const std::size_t longest = (test.size() + parts - 1) / parts;
  std::vector<std::size_t> images(test.size());
  std::iota(images.begin(), images.end(), std::size_t{0});
  std::size_t correct = 0;
  for (std::size_t done = 0; done < longest; done += capacity_) {
    for (std::size_t part = 0; part < parts; ++part) {
      models::Model& network = *networks[part];
      const std::size_t first = std::min(border(part) + done, border(part + 1));
      const std::size_t count = std::min(capacity_, border(part + 1) - first);
      copy_images(test, std::span(images).subspan(first, count), network.stream(), network.images(), network.labels());
      network.evaluate(static_cast<int>(count));
    }
    for (const models::Model* network : networks) {
      network->stream().sync();
      correct += network->outcome().correct;
    }
  }
  return static_cast<double>(correct) / static_cast<double>(test.size());
}

std::vector<float> Replicas::state(int rank) const {
  std::vector<float> state;
  const int first = in_pieces() ? 0 : rank, end = in_pieces() ? ranks() : rank + 1;
  for (int each = first; each < end; ++each) {
    for (const models::StateTensor& tensor : model(each).state()) {
      const std::size_t before = state.size();
      state.resize(before + tensor.values.size());
      stream(each).copy(tensor.values.data(), state.data() + before, tensor.values.size_bytes());
      stream(each).sync();
    }
  }
  const std::vector<float> momentum = gather_momentum();
  state.insert(state.end(), momentum.begin(), momentum.end());
  return state;
}

void Replicas::restore(const std::vector<float>& state) const {
  const float* from = state.data();
  for (int rank = 0; rank < ranks(); ++rank) {
    if (!in_pieces()) from = state.data();
    for (const models::StateTensor& tensor : model(rank).state()) {
      stream(rank).copy(from, tensor.values.data(), tensor.values.size_bytes());
      from += tensor.values.size();
    }
    scatter_momentum(from, rank);
  }
  sync();
}

models::Checkpoint Replicas::checkpoint(std::map<std::string, std::string> metadata) const {
  std::vector<float> momentum = gather_momentum();
  models::Checkpoint checkpoint{std::move(metadata)};
  for (int rank = 0; rank < (in_pieces() ? ranks() : 1); ++rank) {
    models::add(checkpoint, tensors(rank, momentum), stream(rank));
  }
  return checkpoint;
}

void Replicas::restore(const models::Checkpoint& checkpoint) const {
  models::require_alike(checkpoint, this->checkpoint());
  std::vector<float> momentum = gather_momentum();
  for (int rank = 0; rank < ranks(); ++rank) {
    models::restore(checkpoint, tensors(rank, momentum), stream(rank));
    scatter_momentum(momentum.data(), rank);
  }
  sync();
}

std::vector<models::StateTensor> Replicas::tensors(int rank, std::vector<float>& momentum) const {
  auto tensors = model(rank).state();
  if (momentum.empty()) return tensors;
  for (auto& tensor : model(rank).momentum_tensors(momentum.data())) tensors.push_back(std::move(tensor));
  return tensors;
}

std::vector<float> Replicas::gather_momentum() const {
  if (!conditions_.shares_momentum || ranks() == 1) return {};
  std::vector<float> whole(size());
  for (int rank = 0; rank < ranks(); ++rank) {
    const float* from = model(rank).momentum().data();
    for (const models::Slice& slice : model(rank).momentum_slices()) {
      stream(rank).copy(from, whole.data() + slice.offset, slice.count * sizeof(float));
      from += slice.count;
    }
    stream(rank).sync();
  }
  return whole;
}

void Replicas::scatter_momentum(const float* whole, int rank) const {
  if (!conditions_.shares_momentum || ranks() == 1) return;
  float* to = model(rank).momentum().data();
  for (const models::Slice& slice : model(rank).momentum_slices()) {
    stream(rank).copy(whole + slice.offset, to, slice.count * sizeof(float));
    to += slice.count;
  }
}

std::vector<float> Replicas::parameters(int rank) const {
  std::vector<float> arena(model(rank).size());
  stream(rank).copy(model(rank).parameters(), arena.data(), arena.size() * sizeof(float));
  stream(rank).sync();
  return arena;
}

std::vector<std::string> Replicas::checksums() const {
  std::vector<std::vector<float>> arenas;
  std::map<std::string, std::pair<int, std::size_t>> first;  // rank and offset of the tensors that a rank has whole
  std::vector<std::string> sums;
  for (int rank = 0; rank < ranks(); ++rank) {
    arenas.push_back(parameters(rank));
    const std::vector<float>& own = arenas.back();
    for (const models::Parameter& tensor : model(rank).parameter_table()) {
      if (!tensor.whole) continue;
      const auto [other, offset] = first.try_emplace(tensor.name, rank, tensor.offset).first->second;
      if (std::memcmp(own.data() + tensor.offset, arenas[other].data() + offset, tensor.count * sizeof(float)) == 0) {
        continue;
      }
      throw harness::Error("the replicas of ranks " + std::to_string(other) + " and " + std::to_string(rank) +
                           " differ, first in " + tensor.name);
    }
    sums.push_back(models::sha256({reinterpret_cast<const std::uint8_t*>(own.data()), own.size() * sizeof(float)}));
  }
  return sums;
}

}  // namespace bench
