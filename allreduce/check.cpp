// SPDX-License-Identifier: Apache-2.0
#include "allreduce/check.hpp"

#include <cstring>
#include <sstream>

#include "allreduce/device_values.hpp"
#include "harness/machine.hpp"

namespace allreduce {

namespace {

void add(std::optional<harness::Wrong>& all, const std::optional<harness::Wrong>& more) {
  if (!more) return;
  if (all) {
    all->count += more->count;
  } else {
    all = more;
  }
}

std::string sentence(const harness::Wrong& wrong, Numbers numbers) {
  std::ostringstream text;
  text.precision(17);
  text << wrong.count << " wrong elements" << (numbers == Numbers::real ? " of random reals" : "")
       << ", the first on rank " << wrong.rank << " at index " << wrong.first_index << ": " << wrong.got
       << " instead of " << wrong.expected;
  return text.str();
}

std::vector<std::byte> of_rank_0(const std::vector<std::byte>& own, harness::World* world) {
  if (!world) return own;
  const std::string bytes = world->broadcast({reinterpret_cast<const char*>(own.data()), own.size()});
  std::vector<std::byte> received(bytes.size());
  std::memcpy(received.data(), bytes.data(), bytes.size());
  return received;
}

// What the processes of a world found, together.
std::optional<harness::Wrong> of_all(const std::optional<harness::Wrong>& own, harness::World* world) {
  if (!world) return own;
  std::string bytes;
  if (own) bytes.assign(reinterpret_cast<const char*>(&*own), sizeof *own);
  std::optional<harness::Wrong> all;
  for (const std::string& found : world->gather(bytes)) {
    harness::Wrong wrong;
    if (found.size() != sizeof wrong) continue;
    std::memcpy(&wrong, found.data(), sizeof wrong);
    add(all, wrong);
  }
  return all;
}

}  // namespace

Vectors::Vectors(harness::Devices& devices, const Pattern& pattern, std::size_t count, Placement placement,
                 harness::World* world, const Allocate& allocate)
    : devices_(devices), world_(world), first_rank_(world ? world->rank() : 0), pattern_(pattern), count_(count) {
  const std::size_t bytes = count * harness::size_of(pattern.dtype);
  const auto on_host = [&] {
    harness::require_host_memory(bytes);
    return std::vector<std::byte>(bytes);
  };
  found_ = on_host();
  for (int device = 0; device < devices.size(); ++device) {
    contributions_.emplace_back();
    if (!has_device_values(devices[device])) {
      contributions_.back() = on_host();
      fill(pattern, first_rank_ + device, contributions_.back().data(), count);
    }
    data_.push_back(allocate(devices[device], bytes));
    buffers_.data.push_back(data_.back().data());
    if (placement == Placement::in_place) continue;
    input_.push_back(allocate(devices[device], bytes));
    buffers_.input.push_back(input_.back().data());
  }
  for (int device = 0; device < devices.size(); ++device) streams_.push_back(devices[device].make_stream());
}

std::vector<const std::byte*> Vectors::inputs() const {
  if (!buffers_.input.empty()) return buffers_.input;
  return {buffers_.data.begin(), buffers_.data.end()};
}

void Vectors::refill(Numbers numbers) {
  for (int device = 0; device < devices_.size(); ++device) {
    const auto& target = input_.empty() ? data_[device] : input_[device];
    if (has_device_values(devices_[device])) {
      fill_on_device(*streams_[device], pattern_, first_rank_ + device, numbers, target.data(), count_);
    } else if (numbers == Numbers::whole) {
      streams_[device]->copy(contributions_[device].data(), target.data(), bytes());
    } else {
      fill_reals(pattern_, first_rank_ + device, found_.data(), count_);
      streams_[device]->copy(found_.data(), target.data(), bytes());
      streams_[device]->sync();
    }
  }
  for (const auto& stream : streams_) stream->sync();
}

void Vectors::fetch(int device) {
  streams_[device]->copy(data_[device].data(), found_.data(), bytes());
  streams_[device]->sync();
}

const std::vector<std::byte>& Vectors::answer(int rank) {
  const bool is_other = rank != answer_rank_ && differs_by_rank(pattern_.collective);
  if (answer_.empty() || is_other) {
    harness::require_host_memory(bytes());
    answer_.resize(bytes());
    fill_answer(pattern_, rank, answer_.data(), count_);
    answer_rank_ = rank;
  }
  return answer_;
}

std::optional<harness::Wrong> Vectors::compare(Numbers numbers) {
  const bool alike = numbers == Numbers::real && pattern_.collective == Collective::allreduce;
  std::optional<harness::Wrong> all;
  std::vector<std::byte> first;  // of an all-reduce of reals: what rank 0 has, all must have
  for (int device = 0; device < devices_.size(); ++device) {
    const int rank = first_rank_ + device;
    if (numbers == Numbers::whole) {
      const Part part = owed(pattern_, rank, count_);
      if (has_device_values(devices_[device]) &&
          count_wrong_on_device(*streams_[device], pattern_, rank, data_[device].data(), count_, part) == 0) {
        continue;
      }
      fetch(device);
      add(all, compare_numbers(pattern_.dtype, rank, answer(rank).data(), found_.data(), part));
      continue;
    }
    fetch(device);
    if (alike && device == 0) first = of_rank_0(found_, world_);
    if (alike && rank > 0) {
      add(all, compare_bits(pattern_.dtype, rank, first.data(), found_.data(), {0, count_}));
    } else {
      add(all, compare_reals(pattern_, rank, found_.data(), count_));
    }
  }
  return of_all(all, world_);
}

std::optional<Fault> check(Program& program, Vectors& vectors) {
  for (const Numbers numbers : {Numbers::whole, Numbers::real}) {
    if (numbers == Numbers::real && !has_reals(vectors.pattern())) continue;
    vectors.refill(numbers);
    program.enqueue();
    program.sync();
    if (const auto wrong = vectors.compare(numbers)) return Fault{*wrong, sentence(*wrong, numbers)};
  }
  return std::nullopt;
}

}  // namespace allreduce
