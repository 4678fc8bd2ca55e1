// SPDX-License-Identifier: Apache-2.0
#include "tests/allreduce/random_devices.hpp"

#include <algorithm>
#include <cstring>
#include <map>

#include "harness/device/reduce.hpp"
#include "harness/error.hpp"

namespace allreduce {

using harness::Error;
using harness::Event;

class RandomStream : public harness::Stream {
 public:
  RandomStream(RandomDevices& devices, harness::Device& device) : devices_(devices), device_(device) {
    devices_.lines_.push_back(line_);
  }
  RandomStream(const RandomStream&) = delete;
  RandomStream& operator=(const RandomStream&) = delete;
  ~RandomStream() override {
    try {
      devices_.finish(*line_);
    } catch (const Error&) {  // told by the sync of whoever cared
    }
    std::erase(devices_.lines_, line_);
  }

  void copy(const void* from, void* to, std::size_t bytes) override {
    if (bytes > 0) devices_.issue(*line_, {[=] { std::memcpy(to, from, bytes); }});
  }
  void reduce(const void* from, void* into, std::size_t count, const harness::Reduction& reduction) override {
    if (count > 0) devices_.issue(*line_, {[=] { harness::reduce_on_host(from, into, count, reduction); }});
  }
  Event record(harness::Timing) override { return devices_.mark(line_); }
  void wait(const Event& event) override { devices_.wait(*line_, event); }
  void sync() override { devices_.finish(*line_); }
  harness::Device& device() const override { return device_; }

 private:
  RandomDevices& devices_;
  harness::Device& device_;
  std::shared_ptr<RandomDevices::Line> line_ = std::make_shared<RandomDevices::Line>();
};

class RandomDevice : public harness::Device {
 public:
  RandomDevice(RandomDevices& devices, int rank) : devices_(devices), rank_(rank) {}
  harness::Buffer allocate(std::size_t bytes) override {
    const auto memory = std::make_shared<std::vector<std::byte>>(bytes, std::byte{0xFF});
    return {std::shared_ptr<void>(memory, memory->data()), bytes};
  }
  std::unique_ptr<harness::Stream> make_stream() override { return std::make_unique<RandomStream>(devices_, *this); }
  std::string name() const override { return "random device " + std::to_string(rank_); }

 private:
  RandomDevices& devices_;
  int rank_;
};

class RandomRecording : public harness::Recording {
 public:
  explicit RandomRecording(RandomDevices& devices) : devices_(devices) {
    for (const auto& line : devices.lines_) {
      if (!line->recorded.empty()) parts_.emplace_back(line.get(), std::move(line->recorded));
      line->recorded.clear();
    }
  }
  void launch() override {
    std::map<const RandomDevices::Line*, std::size_t> before;
    for (const auto& [line, commands] : parts_) before[line] = line->forgotten + line->commands.size();
    for (const auto& [line, commands] : parts_) {
      for (RandomDevices::Command command : commands) {
        if (command.awaited) command.position += before.at(command.awaited);
        devices_.issue(*line, std::move(command));
      }
    }
  }

 private:
  RandomDevices& devices_;
  std::vector<std::pair<RandomDevices::Line*, std::vector<RandomDevices::Command>>> parts_;
};

RandomDevices::RandomDevices(int ranks) {
  for (int rank = 0; rank < ranks; ++rank) devices_.push_back(std::make_unique<RandomDevice>(*this, rank));
}
RandomDevices::~RandomDevices() = default;

void RandomDevices::restart(std::uint64_t seed, std::optional<std::size_t> left_out) {
  random_.seed(seed);
  waits_ = 0;
  left_out_ = left_out;
  for (const auto& line : lines_) {
    if (line->done < line->commands.size()) throw Error("work from before the restart has not ended");
    line->forgotten += line->commands.size();
    line->commands.clear();
    line->done = 0;
    line->held.reset();
    line->speed = 1U << (random_() % 6);
  }
}

void RandomDevices::issue(Line& line, Command command) {
  if (recording_) {
    line.recorded.push_back(std::move(command));
    return;
  }
  if (command.awaited && numbering_) {
    command.number = waits_++;
  }
  line.commands.push_back(std::move(command));
}

Event RandomDevices::mark(const std::shared_ptr<Line>& line) {
  issue(*line, {});
  return {line, recording_ ? line->recorded.size() : line->forgotten + line->commands.size()};
}

void RandomDevices::wait(Line& line, const Event& event) {
  if (!event) return;
  auto* awaited = dynamic_cast<Line*>(event.state().get());
  if (!awaited) throw Error("a random device cannot wait for an event of another kind of device");
  issue(line, {nullptr, awaited, event.position()});
}

bool RandomDevices::runnable(const Line& line) const {
  if (line.done == line.commands.size()) return false;
  const Command& next = line.commands[line.done];
  if (!next.awaited || (next.number && next.number == left_out_)) return true;
  return next.awaited->forgotten + next.awaited->done >= next.position;
}

// A stream that can go on, one that is held back only where there is no other; nothing where all wait.
RandomDevices::Line* RandomDevices::pick() {
  choice_.clear();
  Line* last_resort = nullptr;
  for (const auto& line : lines_) {
    if (!runnable(*line)) continue;
    if (line->done == line->held) {
      last_resort = line.get();
    } else {
      choice_.push_back(line.get());
    }
  }
  return choice_.empty() ? last_resort : choice_[random_() % choice_.size()];
}

void RandomDevices::finish(const Line& line) {
  if (line.done == line.commands.size()) return;
  if (left_out_) {
    for (const auto& [other, first] : first_set_free(*left_out_)) other->held = first;
  }
  while (line.done < line.commands.size()) {
    Line* next = pick();
    if (!next) throw Error("every stream waits for another one");
    std::uint64_t burst = 1 + random_() % next->speed;
    do {
      const Command& command = next->commands[next->done];
      if (command.work) command.work();
      ++next->done;
    } while (--burst > 0 && runnable(*next) && next->done != next->held);
  }
}

RandomDevices::Counts RandomDevices::before(Line& line, std::size_t count, const Command* left_out) const {
  Counts counts;
  std::vector<std::pair<Line*, std::size_t>> open = {{&line, count}};
  while (!open.empty()) {
    const auto [at, needed] = open.back();
    open.pop_back();
    for (std::size_t& known = counts[at]; known < needed; ++known) {
      const Command& command = at->commands[known];
      if (!command.awaited || &command == left_out || command.position <= command.awaited->forgotten) continue;
      open.emplace_back(command.awaited, command.position - command.awaited->forgotten);
    }
  }
  return counts;
}

RandomDevices::Counts RandomDevices::first_set_free(std::size_t wait) const {
  for (const auto& line : lines_) {
    const auto& commands = line->commands;
    const auto at = std::find_if(commands.begin(), commands.end(), [&](const auto& c) { return c.number == wait; });
    if (at == commands.end()) continue;
    const auto next = std::find_if(at, commands.end(), [](const auto& command) { return !command.awaited; });
    const Counts with = before(*line, next - commands.begin(), nullptr);
    Counts without = before(*line, next - commands.begin(), &*at);
    Counts first;
    for (const auto& [other, count] : with) {
      std::size_t& free = without[other];
      while (free < count && !other->commands[free].work) ++free;
      if (free < count) first[other] = free;
    }
    return first;
  }
  throw Error("there was no wait of number " + std::to_string(wait));
}

std::unique_ptr<harness::Recording> RandomDevices::record(harness::Stream&, const std::function<void()>& issue) {
  recording_ = true;
  issue();
  recording_ = false;
  return std::make_unique<RandomRecording>(*this);
}

double RandomDevices::seconds_between(const Event&, const Event&) const { throw Error("a random device has no clock"); }

}  // namespace allreduce
