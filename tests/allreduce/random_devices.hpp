// SPDX-License-Identifier: Apache-2.0
// Devices on which a missing dependency shows. Nothing runs when it is issued; a sync runs it, in the caller's thread,
// one command at a time, in an order that is drawn from a seed among all that are legal: whatever a stream's
// predecessors and waits allow may come next. Streams are given very different speeds, so that one runs far ahead of
// another. And a wait can be left out on purpose, with the work that it waited for held back as long as possible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "harness/device/device.hpp"

namespace allreduce {

class RandomDevices : public harness::Devices {
 public:
  explicit RandomDevices(int ranks);
  ~RandomDevices() override;

  // A new order for the work issued from now on, in which the wait of number `left_out` is no wait. Forgets the work so
  // far, all of which must have ended.
  void restart(std::uint64_t seed, std::optional<std::size_t> left_out = std::nullopt);

  // Waits are numbered from 0, in the order they are issued, while this is on.
  void number_waits(bool on) { numbering_ = on; }
  std::size_t waits() const { return waits_; }
  // Whether what follows that wait follows the same work also without it, because of the other waits.
  bool implied(std::size_t wait) const { return first_set_free(wait).empty(); }

  int size() const override { return static_cast<int>(devices_.size()); }
  harness::Device& operator[](int rank) const override { return *devices_.at(rank); }
  std::string text() const override { return "random:" + std::to_string(size()); }
  int threads() const override { return 1; }
  bool oversubscribed() const override { return true; }
  std::unique_ptr<harness::Recording> record(harness::Stream& anchor, const std::function<void()>& issue) override;
  double seconds_between(const harness::Event& begin, const harness::Event& end) const override;

 private:
  friend class RandomDevice;
  friend class RandomStream;
  friend class RandomRecording;

  struct Line;
  using Work = std::function<void()>;
  struct Command {
    Work work = nullptr;      // nothing to do for a wait, and where an event is recorded
    Line* awaited = nullptr;  // a wait: for the first `position` commands of that stream
    std::size_t position = 0;
    std::optional<std::size_t> number = std::nullopt;
  };
  // The commands of a stream since the restart, or while recording.
  struct Line : harness::Event::State {
    std::vector<Command> commands, recorded;
    std::size_t done = 0, forgotten = 0;             // of `commands`; how many there were before
    std::optional<std::size_t> held = std::nullopt;  // the command that is held back
    unsigned speed = 1;                              // commands at a stretch, at most
  };

  using Counts = std::map<Line*, std::size_t>;  // commands of each stream

  void issue(Line& line, Command command);
  harness::Event mark(const std::shared_ptr<Line>& line);
  void wait(Line& line, const harness::Event& event);
  void finish(const Line& line);
  // What must have ended before the command of that number of a stream begins.
  Counts before(Line& line, std::size_t count, const Command* left_out) const;
  // The first work of each stream that precedes what follows a wait because of that wait alone.
  Counts first_set_free(std::size_t wait) const;
  bool runnable(const Line& line) const;
  Line* pick();

  std::vector<std::unique_ptr<harness::Device>> devices_;
  std::vector<std::shared_ptr<Line>> lines_;
  std::mt19937_64 random_;
  bool recording_ = false;
  bool numbering_ = false;
  std::size_t waits_ = 0;
  std::optional<std::size_t> left_out_;
  std::vector<Line*> choice_;  // of pick
};

}  // namespace allreduce
