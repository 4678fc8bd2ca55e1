// SPDX-License-Identifier: Apache-2.0
#include "tests/allreduce/overlapped_runs.hpp"

namespace allreduce {

OverlappedRuns::OverlappedRuns(RandomDevices& devices, const Schedule& schedule, Launch launch)
    : devices_(devices),
      count_(2 * schedule.chunks + 1),
      placement_(schedule.shape.placement),
      pattern_{harness::Dtype::f32, harness::Op::sum, devices.size(), 7, schedule.collective, schedule.shape.root},
      ready_(devices.size()),
      destroyed_(count_ * size_of(pattern_.dtype), std::byte{0xFF}) {
  const std::size_t bytes = destroyed_.size();
  const auto vector = [&](int rank) {
    memory_.push_back(devices[rank].allocate(bytes));
    return memory_.back().data();
  };
  for (int set = 0; set < sets; ++set) {
    Buffers& buffers = sets_.emplace_back();
    for (int rank = 0; rank < devices.size(); ++rank) {
      buffers.data.push_back(vector(rank));
      if (placement_ == Placement::out_of_place) buffers.input.push_back(vector(rank));
    }
  }
  for (int run = 0; run < runs; ++run) {
    contributions_[run].assign(devices.size(), Bytes(bytes));
    results_[run].assign(devices.size(), Bytes(bytes));
    for (int rank = 0; rank < devices.size(); ++rank) {
      fill(pattern_of(run), rank, contributions_[run][rank].data(), count_);
    }
  }
  for (int rank = 0; rank < devices.size(); ++rank) users_.push_back(devices[rank].make_stream());
  program_ = prepare_streams(schedule, {&devices, count_, pattern_.dtype, pattern_.op, launch, sets_});
}

Pattern OverlappedRuns::pattern_of(int run) const {
  Pattern pattern = pattern_;
  pattern.seed += run;
  return pattern;
}

void OverlappedRuns::feed(int run) {
  const Buffers& buffers = sets_[(first_set_ + run) % sets];
  for (std::size_t rank = 0; rank < users_.size(); ++rank) {
    auto* target = placement_ == Placement::in_place ? buffers.data[rank] : const_cast<std::byte*>(buffers.input[rank]);
    users_[rank]->copy(contributions_[run][rank].data(), target, destroyed_.size());
    ready_[rank] = users_[rank]->record();
  }
}

void OverlappedRuns::read(int run, const std::vector<harness::Event>& ended) {
  const Buffers& buffers = sets_[(first_set_ + run) % sets];
  for (std::size_t rank = 0; rank < users_.size(); ++rank) {
    users_[rank]->wait(ended[rank]);
    users_[rank]->copy(buffers.data[rank], results_[run][rank].data(), destroyed_.size());
    users_[rank]->copy(destroyed_.data(), buffers.data[rank], destroyed_.size());
    if (placement_ == Placement::in_place) continue;
    users_[rank]->copy(destroyed_.data(), const_cast<std::byte*>(buffers.input[rank]), destroyed_.size());
  }
}

std::string OverlappedRuns::operator()(std::uint64_t seed, std::optional<std::size_t> left_out) {
  devices_.restart(seed, left_out);
  std::array<std::vector<harness::Event>, runs> ended;
  for (int run = 0; run < runs; ++run) {
    feed(run);
    devices_.number_waits(true);
    ended[run] = program_->enqueue(ready_);
    devices_.number_waits(false);
    if (run + 1 >= sets) read(run + 1 - sets, ended[run + 1 - sets]);  // before its set is fed again
  }
  for (int run = runs + 1 - sets; run < runs; ++run) read(run, ended[run]);
  first_set_ += runs;
  for (const auto& user : users_) user->sync();
  program_->sync();
  for (int run = 0; run < runs; ++run) {
    for (int rank = 0; rank < devices_.size(); ++rank) {
      if (const auto wrong = compare(pattern_of(run), rank, results_[run][rank].data(), count_)) {
        return "run " + std::to_string(run) + " rank " + std::to_string(rank) + " element " +
               std::to_string(wrong->first_index) + ": " + std::to_string(wrong->got) + " instead of " +
               std::to_string(wrong->expected) + ", seed " + std::to_string(seed);
      }
    }
  }
  return "";
}

}  // namespace allreduce
