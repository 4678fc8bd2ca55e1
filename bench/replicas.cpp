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

std::string hash_of(std::span<const float> values) {
  return models::sha256({reinterpret_cast<const std::uint8_t*>(values.data()), values.size_bytes()});
}

}  // namespace

Replicas::Replicas(harness::Devices& devices, const std::string& model, models::ModelSettings settings,
                   const Conditions& conditions, harness::World* world)
    : devices_(devices),
      world_(world && world->size() > 1 ? world : nullptr),
      name_(model),
      whole_(evaluating(settings, devices.threads())),
      conditions_(conditions),
      shards_(ranks(), 0),
      part_(ranks(), 0),
      capacity_(settings.capacity) {
  settings.threads = devices.threads();
  for (int replica = 0; replica < here(); ++replica) {
    if (conditions.shares_momentum) {
      settings.momentum_share = {rank_of(replica), ranks()};
      settings.buckets = bucket_sizes(conditions.bucket_bytes);
    }
    if (conditions.piece == Piece::share) settings.features = {replica, ranks()};
    if (conditions.piece == Piece::stage) {
      settings.stage = conditions.stages.at(replica);
      settings.parts = conditions.microbatches;
    }
    streams_.push_back(devices[replica].make_stream());
    models_.push_back(models::make_model(model, *streams_.back(), settings));
    if (!accumulates()) continue;
    const std::size_t images = capacity_ * conditions.accumulate;
    inbox_images_.push_back(devices[replica].allocate(images * models_.back()->input().size() * sizeof(float)));
    inbox_labels_.push_back(devices[replica].allocate(images));
    earlier_gradients_.push_back(devices[replica].allocate(size() * sizeof(float)));
  }
  const int slow = conditions.slow_rank < 0 ? -1 : conditions.slow_rank - rank_of(0);
  if (slow >= 0 && slow < here()) brake_ = harness::make_brake(stream(slow), conditions.slow_factor);
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
  std::size_t first = std::accumulate(batch.shards.begin(), batch.shards.begin() + rank_of(0), std::size_t{0});
  for (int replica = 0; replica < here(); ++replica) {
    const auto shard = std::span(batch.images).subspan(first, batch.shards[rank_of(replica)]);
    float* images = accumulates() ? reinterpret_cast<float*>(inbox_images_[replica].data()) : model(replica).images();
    std::uint8_t* labels =
        accumulates() ? reinterpret_cast<std::uint8_t*>(inbox_labels_[replica].data()) : model(replica).labels();
    copy_images(*batch.data, shard, stream(replica), images, labels);
    first += shard.size();
  }
}

void Replicas::take(int part) {
  const auto border = [&](int rank, int before) {
    return static_cast<std::size_t>(shards_[rank]) * before / conditions_.accumulate;
  };
  for (int replica = 0; replica < here(); ++replica) {
    const int rank = rank_of(replica);
    const std::size_t first = border(rank, part), images = border(rank, part + 1) - first;
    models::Model& to = model(replica);
    const std::size_t image_bytes = to.input().size() * sizeof(float);
    stream(replica).copy(inbox_images_[replica].data() + first * image_bytes, to.images(), images * image_bytes);
    stream(replica).copy(inbox_labels_[replica].data() + first, to.labels(), images);
    part_[rank] = static_cast<int>(images);
  }
  last_part_ = part + 1 == conditions_.accumulate;
}

void Replicas::accumulate() {
  earlier_losses_.clear();
  for (int part = 0; part + 1 < conditions_.accumulate; ++part) {
    take(part);
    forward();
    backward();
    for (int replica = 0; replica < here(); ++replica) {
      std::byte* sum = earlier_gradients_[replica].data();
      if (part == 0) {
        stream(replica).copy(model(replica).gradients(), sum, size() * sizeof(float));
      } else {
        stream(replica).reduce(model(replica).gradients(), sum, size(), {});
      }
    }
    sync();  // the loss of a part can be read only then
    earlier_losses_.push_back(losses());
  }
  take(conditions_.accumulate - 1);
}

void Replicas::compute(int replica, const std::function<void()>& issue) const {
  if (rank_of(replica) != conditions_.slow_rank) return issue();
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
  for (int replica = 0; replica < here(); ++replica) {
    compute(replica, [&] { model(replica).forward(part_[rank_of(replica)]); });
  }
}

void Replicas::forward(int layer) {
  pass(layer, false, [&] {
    for (int replica = 0; replica < here(); ++replica) {
      compute(replica, [&] { model(replica).forward(layer, part_[rank_of(replica)]); });
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
    for (int replica = 0; replica < here(); ++replica) {
      compute(replica, [&] { filled = model(replica).backward(layer, part_[rank_of(replica)]); });
      if (!accumulates() || !last_part_) continue;
      const std::byte* earlier = earlier_gradients_[replica].data() + filled.offset * sizeof(float);
      stream(replica).reduce(earlier, model(replica).gradients() + filled.offset, filled.count, {});
    }
  });
  return filled;
}

void Replicas::update(const models::Sgd& how) {
  update(how, [this](int replica) { return models::Slice{0, model(replica).size()}; });
}

void Replicas::update(const models::Sgd& how, const std::function<models::Slice(int replica)>& part) {
  for (int replica = 0; replica < here(); ++replica) {
    compute(replica, [&] { model(replica).step(how, part(replica)); });
  }
}

void Replicas::sync() const {
  for (const auto& stream : streams_) stream->sync();
}

void Replicas::meet() const {
  if (world_) world_->barrier();
}

double Replicas::time(const std::function<void()>& issue) const {
  const auto begin = stream(0).record(harness::Timing::on);
  for (int replica = 1; replica < here(); ++replica) stream(replica).wait(begin);
  issue();
  for (int replica = 1; replica < here(); ++replica) stream(0).wait(stream(replica).record());
  const auto end = stream(0).record(harness::Timing::on);
  sync();
  return devices_.seconds_between(begin, end);
}

std::vector<double> Replicas::losses() const {
  std::vector<double> losses;
  for (const auto& model : models_) losses.push_back(model->outcome().loss);
  return losses;
}

double Replicas::loss() const {
  double loss = 0;
  const auto add = [&](const std::vector<double>& losses) {
    for (const double each : world_ ? world_->gather(losses[0]) : losses) loss += each;
  };
  for (const auto& losses : earlier_losses_) add(losses);
  add(losses());
  return loss;
}

double Replicas::accuracy(const models::Dataset& test) {
  if (in_pieces()) {
    const auto whole = models::make_model(name_, stream(0), whole_);
    models::restore(checkpoint(), whole->state(), stream(0));
    return fraction_right({{whole.get()}}, test);
  }
  // Batch norm's running statistics are rank 0's for all.
  const auto from = model().statistics();
  for (int replica = 1; replica < here(); ++replica) {
    stream(replica).copy(from.data(), model(replica).statistics().data(), from.size_bytes());
  }
  if (world_) {
    std::string bytes(from.size_bytes(), '\0');
    stream(0).copy(from.data(), bytes.data(), bytes.size());
    stream(0).sync();
    bytes = world_->broadcast(std::move(bytes));
    stream(0).copy(bytes.data(), from.data(), bytes.size());
    stream(0).sync();
  }
  std::vector<models::Model*> networks;
  for (const auto& model : models_) networks.push_back(model.get());
  return fraction_right(networks, test);
}

double Replicas::fraction_right(std::span<models::Model* const> networks, const models::Dataset& test) const {
  const std::size_t parts = world_ ? ranks() : networks.size();
  const auto border = [&](std::size_t part) { return test.size() * part / parts; };
  const std::size_t longest = (test.size() + parts - 1) / parts;
  std::vector<std::size_t> images(test.size());
  std::iota(images.begin(), images.end(), std::size_t{0});
  std::size_t correct = 0;
  for (std::size_t done = 0; done < longest; done += capacity_) {
    for (std::size_t i = 0; i < networks.size(); ++i) {
      models::Model& network = *networks[i];
      const std::size_t part = rank_of(static_cast<int>(i));
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
  double all = 0;
  const auto own = static_cast<double>(correct);
  for (const double each : world_ ? world_->gather(own) : std::vector{own}) all += each;
  return all / static_cast<double>(test.size());
}

std::vector<float> Replicas::state(int replica) const {
  std::vector<float> state;
  const auto add = [&](std::span<const float> values, int from) {
    const std::size_t before = state.size();
    state.resize(before + values.size());
    stream(from).copy(values.data(), state.data() + before, values.size_bytes());
    stream(from).sync();
  };
  const int first = in_pieces() ? 0 : replica, end = in_pieces() ? here() : replica + 1;
  for (int each = first; each < end; ++each) {
    for (const models::StateTensor& tensor : model(each).state()) add(tensor.values, each);
  }
  for (int each = 0; each < here() && shares_momentum(); ++each) add(model(each).momentum(), each);
  return state;
}

void Replicas::restore(const std::vector<float>& state) const {
  const float* from = state.data();
  const auto take = [&](std::span<float> values, int to) {
    stream(to).copy(from, values.data(), values.size_bytes());
    from += values.size();
  };
  for (int replica = 0; replica < here(); ++replica) {
    if (!in_pieces()) from = state.data();
    for (const models::StateTensor& tensor : model(replica).state()) take(tensor.values, replica);
  }
  for (int replica = 0; replica < here() && shares_momentum(); ++replica) take(model(replica).momentum(), replica);
  sync();
}

models::Checkpoint Replicas::checkpoint(std::map<std::string, std::string> metadata) const {
  std::vector<float> momentum = gather_momentum();
  models::Checkpoint checkpoint{std::move(metadata)};
  for (int replica = 0; replica < (in_pieces() ? here() : 1); ++replica) {
    models::add(checkpoint, tensors(replica, momentum), stream(replica));
  }
  return checkpoint;
}

void Replicas::restore(const models::Checkpoint& checkpoint) const {
  models::require_alike(checkpoint, this->checkpoint());
  std::vector<float> momentum = gather_momentum();
  for (int replica = 0; replica < here(); ++replica) {
    models::restore(checkpoint, tensors(replica, momentum), stream(replica));
    if (shares_momentum()) scatter_momentum(momentum, replica);
  }
  sync();
}

std::vector<models::StateTensor> Replicas::tensors(int replica, std::vector<float>& momentum) const {
  auto tensors = model(replica).state();
  if (momentum.empty()) return tensors;
  for (auto& tensor : model(replica).momentum_tensors(momentum.data())) tensors.push_back(std::move(tensor));
  return tensors;
}

std::vector<float> Replicas::gather_momentum() const {
  if (!shares_momentum()) return {};
  std::vector<float> whole(size());
  for (int replica = 0; replica < here(); ++replica) {
    const float* from = model(replica).momentum().data();
    for (const models::Slice& slice : model(replica).momentum_slices()) {
      stream(replica).copy(from, whole.data() + slice.offset, slice.count * sizeof(float));
      from += slice.count;
    }
    stream(replica).sync();
  }
  if (!world_) return whole;
  // Where a process has no share, the bits of its elements are 0.
  std::vector<std::uint32_t> bits(whole.size());
  const std::size_t bytes = whole.size() * sizeof(float);
  for (const std::string& part : world_->gather(std::string(reinterpret_cast<const char*>(whole.data()), bytes))) {
    for (std::size_t i = 0; i < bits.size(); ++i) {
      std::uint32_t value = 0;
      std::memcpy(&value, part.data() + i * sizeof value, sizeof value);
      bits[i] |= value;
    }
  }
  std::memcpy(whole.data(), bits.data(), bytes);
  return whole;
}

void Replicas::scatter_momentum(const std::vector<float>& whole, int replica) const {
  float* to = model(replica).momentum().data();
  for (const models::Slice& slice : model(replica).momentum_slices()) {
    stream(replica).copy(whole.data() + slice.offset, to, slice.count * sizeof(float));
    to += slice.count;
  }
}

std::vector<float> Replicas::parameters(int replica) const {
  std::vector<float> arena(model(replica).size());
  stream(replica).copy(model(replica).parameters(), arena.data(), arena.size() * sizeof(float));
  stream(replica).sync();
  return arena;
}

std::vector<std::string> Replicas::checksums() const {
  std::vector<std::vector<float>> arenas;
  std::map<std::string, std::pair<int, std::size_t>> first;  // replica and offset of the tensors that one has whole
  std::vector<std::string> sums;
  const auto differ = [](int rank, int other, const std::string& tensor) {
    return harness::Error("the replicas of ranks " + std::to_string(rank) + " and " + std::to_string(other) +
                          " differ, first in " + tensor);
  };
  for (int replica = 0; replica < here(); ++replica) {
    arenas.push_back(parameters(replica));
    const std::vector<float>& own = arenas.back();
    for (const models::Parameter& tensor : model(replica).parameter_table()) {
      if (!tensor.whole) continue;
      const auto [other, offset] = first.try_emplace(tensor.name, replica, tensor.offset).first->second;
      if (std::memcmp(own.data() + tensor.offset, arenas[other].data() + offset, tensor.count * sizeof(float)) == 0) {
        continue;
      }
      throw differ(other, replica, tensor.name);
    }
    sums.push_back(hash_of(own));
  }
  if (!world_) return sums;
  sums = world_->gather(sums[0]);
  for (int rank = 1; rank < ranks(); ++rank) {
    if (sums[rank] == sums[0]) continue;
    for (const models::Parameter& tensor : model().parameter_table()) {
      const auto each = world_->gather(hash_of(std::span(arenas[0]).subspan(tensor.offset, tensor.count)));
      if (each[rank] != each[0]) throw differ(0, rank, tensor.name);
    }
  }
  return sums;
}

}  // namespace bench
