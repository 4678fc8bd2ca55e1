// SPDX-License-Identifier: Apache-2.0
#include "allreduce/check.hpp"

#include <cstring>
#include <sstream>

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

}  // namespace

Vectors::Vectors(harness::Devices& devices, const Pattern& pattern, std::size_t count, Placement placement)
    : devices_(devices), pattern_(pattern), count_(count) {
  const std::size_t bytes = count * harness::size_of(pattern.dtype);
  const auto on_host = [&] {
    harness::require_host_memory(bytes);
    return std::vector<std::byte>(bytes);
  };
  answer_ = on_host();
  found_ = on_host();
  for (int rank = 0; rank < devices.size(); ++rank) {
    contributions_.push_back(on_host());
    fill(pattern, rank, contributions_.back().data(), count);
    data_.push_back(devices[rank].allocate(bytes));
    buffers_.data.push_back(data_.back().data());
    if (placement == Placement::in_place) continue;
    input_.push_back(devices[rank].allocate(bytes));
    buffers_.input.push_back(input_.back().data());
  }
  fill_answer(pattern, answer_.data(), count);
  for (int rank = 0; rank < devices.size(); ++rank) streams_.push_back(devices[rank].make_stream());
}

std::vector<const std::byte*> Vectors::inputs() const {
  if (!buffers_.input.empty()) return buffers_.input;
  return {buffers_.data.begin(), buffers_.data.end()};
}

void Vectors::refill(Numbers numbers) {
  for (int rank = 0; rank < devices_.size(); ++rank) {
    const auto& target = input_.empty() ? data_[rank] : input_[rank];
    if (numbers == Numbers::whole) {
      streams_[rank]->copy(contributions_[rank].data(), target.data(), bytes());
    } else {
      fill_reals(pattern_, rank, found_.data(), count_);
      streams_[rank]->copy(found_.data(), target.data(), bytes());
      streams_[rank]->sync();
    }
  }
  for (const auto& stream : streams_) stream->sync();
}

void Vectors::fetch(int rank) {
  streams_[rank]->copy(data_[rank].data(), found_.data(), bytes());
  streams_[rank]->sync();
}

std::optional<harness::Wrong> Vectors::compare(Numbers numbers) {
  std::optional<harness::Wrong> all;
  std::vector<std::byte> first;  // of an all-reduce of reals: what rank 0 has, all must have
  for (int rank = 0; rank < devices_.size(); ++rank) {
    fetch(rank);
    if (numbers == Numbers::whole) {
      add(all, compare_numbers(pattern_.dtype, rank, answer_.data(), found_.data(), owed(pattern_, rank, count_)));
    } else if (first.empty()) {
      add(all, compare_reals(pattern_, rank, found_.data(), count_));
      if (pattern_.collective == Collective::allreduce) first = found_;
    } else {
      add(all, compare_bits(pattern_.dtype, rank, first.data(), found_.data(), {0, count_}));
    }
  }
  return all;
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
