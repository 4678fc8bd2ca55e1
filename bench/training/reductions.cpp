// SPDX-License-Identifier: Apache-2.0
#include "bench/training/reductions.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

#include "allreduce/algorithms.hpp"
#include "bench/engines.hpp"
#include "harness/device/cpu.hpp"
#include "harness/device/narrow.hpp"

namespace bench {

std::size_t bytes_crossing(const allreduce::Schedule& schedule, std::size_t count, std::size_t element_bytes) {
  std::size_t elements = 0;
  for (const allreduce::Op& op : schedule.ops) {
    if (op.from.rank == op.to.rank) continue;
    const int first = op.from.space == allreduce::Space::scratch ? op.to.first : op.from.first;
    const auto border = [&](int chunk) { return allreduce::boundary(schedule, count, chunk, element_bytes); };
    elements += border(first + op.from.count) - border(first);
  }
  return elements * element_bytes;
}

Reductions::Reductions(const Replicas& replicas, std::vector<models::Slice> slices, const StrategySettings& settings,
                       allreduce::Collective collective)
    : replicas_(replicas),
      collective_(collective == allreduce::Collective::allreduce ? "all_reduce"
                                                                 : std::string(allreduce::name(collective))),
      slices_(std::move(slices)),
      link_bytes_per_second_(settings.link_bytes_per_second) {
  const bool gathers = collective == allreduce::Collective::all_gather;
  const harness::Dtype dtype = gathers ? harness::Dtype::f32 : settings.grad_dtype;
  if (replicas.ranks() == 1) return;
  for (int rank = 0; rank < replicas.here() && link_bytes_per_second_ > 0; ++rank) {
    links_.push_back(replicas.devices()[rank].make_stream());
  }
  const auto launch = records_steps(replicas, settings) ? allreduce::Launch::eager : settings.launch;
  const Call call{.engine = settings.engine, .algorithm = settings.algorithm, .collective = collective};
  std::optional<allreduce::Schedule> schedule;
  if (runs_schedules(settings.engine)) {
    const auto* algorithm = allreduce::find_algorithm(settings.algorithm, collective);
    if (!algorithm) throw harness::Error("there is no algorithm " + settings.algorithm);
    schedule = algorithm->build({replicas.ranks()});
  } else {
    bytes_moved_.reset();
  }
  const std::size_t element_bytes = harness::size_of(dtype);
  if (dtype != harness::Dtype::f32) {
    for (int rank = 0; rank < replicas.here(); ++rank) {
      narrow_.push_back(replicas.devices()[rank].allocate(replicas.size() * element_bytes));
    }
  }
  // One after the other, in the same order on all ranks: what waits for its peers holds up the others of its rank, and
  // two ranks could each be in another.
  std::vector<harness::Stream*> lanes;
  for (int rank = 0; rank < replicas.here(); ++rank) {
    lanes_.push_back(replicas.devices()[rank].make_stream());
    lanes.push_back(lanes_.back().get());
  }
  harness::World alone;
  for (const models::Slice& slice : slices_) {
    std::vector<std::byte*> vectors;
    for (int rank = 0; rank < replicas.here(); ++rank) {
      const models::Model& model = replicas.model(rank);
      auto* arena = narrow_.empty() ? reinterpret_cast<std::byte*>(gathers ? model.parameters() : model.gradients())
                                    : narrow_[rank].data();
      vectors.push_back(arena + slice.offset * element_bytes);
    }
    const allreduce::Problem problem{.devices = &replicas.devices(),
                                     .count = slice.count,
                                     .dtype = dtype,
                                     .op = harness::Op::sum,
                                     .launch = launch,
                                     .buffers = {{std::move(vectors)}},
                                     .lanes = lanes};
    if (const auto why = refuses(call, problem)) throw harness::Refused(*why);
    programs_.push_back(prepare(call, schedule, problem, replicas.world() ? *replicas.world() : alone));
    if (schedule) *bytes_moved_ += bytes_crossing(*schedule, slice.count, element_bytes);
  }
}

void Reductions::start(models::Slice filled) {
  const std::size_t end = filled.offset + filled.count;
  while (done_.size() < programs_.size() && slices_[done_.size()].offset + slices_[done_.size()].count <= end) {
    if (!narrow_.empty()) narrow(done_.size());
    std::vector<harness::Event> ready;
    for (int rank = 0; rank < replicas_.here(); ++rank) ready.push_back(replicas_.stream(rank).record());
    const std::size_t bytes =
        slices_[done_.size()].count * (narrow_.empty() ? sizeof(float) : sizeof(harness::Bfloat16));
    done_.push_back(pass_links(programs_[done_.size()]->enqueue(ready), bytes));
    for (std::size_t rank = 0; rank < watchers_.size(); ++rank) {
      for (const auto& event : {ready[rank], done_.back()[rank]}) {
        watchers_[rank]->wait(event);
        marks_[rank].push_back(watchers_[rank]->record(harness::Timing::on));
      }
    }
  }
}

// Asleep, it takes no core from whoever computes meanwhile.
std::vector<harness::Event> Reductions::pass_links(const std::vector<harness::Event>& done, std::size_t bytes) const {
  if (links_.empty()) return done;
  std::vector<harness::Event> passed;
  for (int rank = 0; rank < replicas_.here(); ++rank) {
    links_[rank]->wait(done[rank]);
    harness::run(*links_[rank], [seconds = static_cast<double>(bytes) / link_bytes_per_second_] {
      std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    });
    passed.push_back(links_[rank]->record());
  }
  return passed;
}

void Reductions::finish() {
  start({0, replicas_.size()});
  for (std::size_t i = 0; i < done_.size(); ++i) {
    for (int rank = 0; rank < replicas_.here(); ++rank) replicas_.stream(rank).wait(done_[i][rank]);
    if (!narrow_.empty()) widen(i);
  }
  done_.clear();
}

void Reductions::narrow(std::size_t index) const {
  const auto [offset, count] = slices_[index];
  for (int rank = 0; rank < replicas_.here(); ++rank) {
    harness::narrow(replicas_.stream(rank), replicas_.model(rank).gradients() + offset, narrowed(rank) + offset, count);
  }
}

void Reductions::widen(std::size_t index) const {
  const auto [offset, count] = slices_[index];
  for (int rank = 0; rank < replicas_.here(); ++rank) {
    harness::widen(replicas_.stream(rank), narrowed(rank) + offset, replicas_.model(rank).gradients() + offset, count);
  }
}

harness::Bfloat16* Reductions::narrowed(int rank) const {
  return reinterpret_cast<harness::Bfloat16*>(narrow_[rank].data());
}

void Reductions::sync() const {
  for (const auto& program : programs_) program->sync();
  for (const auto& link : links_) link->sync();
  for (const auto& watcher : watchers_) watcher->sync();
}

void Reductions::watch() {
  for (int rank = 0; rank < replicas_.here(); ++rank) {
    watchers_.push_back(replicas_.stream(rank).device().make_stream());
    watchers_[rank]->wait(replicas_.stream(rank).record());
    marks_.push_back({watchers_[rank]->record(harness::Timing::on)});
    replicas_.stream(rank).wait(marks_[rank][0]);  // both begin from here
  }
}

std::vector<Watched> Reductions::unwatch() {
  std::vector<Watched> found;
  for (std::size_t i = 0; i < programs_.size(); ++i) {
    Watched watched{collective_, slices_[i]};
    for (const auto& marks : marks_) {
      watched.begin.push_back(replicas_.devices().seconds_between(marks[0], marks.at(1 + 2 * i)));
      watched.end.push_back(replicas_.devices().seconds_between(marks[0], marks.at(2 + 2 * i)));
    }
    found.push_back(std::move(watched));
  }
  watchers_.clear();
  marks_.clear();
  return found;
}

}  // namespace bench
