// SPDX-License-Identifier: Apache-2.0
// The few words that every kind of device speaks: a Device owns memory (Buffer) and runs Streams; a Stream does copies
// and reduces in order; an Event is a point in a stream that another stream, or the clock, can refer to. They follow
// the CUDA programming model (streams, events, stream capture), so that the order of work which is tested on CPU
// virtual devices is the order that runs on GPUs.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/device/dtype.hpp"
#include "harness/error.hpp"

namespace harness {

// A wait passed its deadline. Work may still be running on the devices: nothing that it touches can be freed safely,
// so write the report and leave the process.
class TimedOut : public Error {
 public:
  using Error::Error;
};

// The device is lost to this process: every further call on it fails.
class DeviceLost : public Error {
 public:
  using Error::Error;
};

enum class Timing { off, on };

// What carries a copy between two devices: memory that both share, one that the reader can address over NVLink or over
// PCIe, or a stop in host memory.
enum class Route { shared, nvlink, pcie, staged };
std::string_view name(Route);

// Which path is taken: the best that there is, only one that needs no stop in host memory, or always that stop.
enum class Transport { automatic, peer, staged };

// A point in a stream's work; a value, cheap to copy. A default-made event has always passed.
class Event {
 public:
  struct State {
    virtual ~State() = default;
  };
  Event() = default;
  Event(std::shared_ptr<State> state, std::uint64_t position) : state_(std::move(state)), position_(position) {}
  const std::shared_ptr<State>& state() const { return state_; }
  std::uint64_t position() const { return position_; }
  explicit operator bool() const { return state_ != nullptr; }

 private:
  std::shared_ptr<State> state_;
  std::uint64_t position_ = 0;
};

class Device;

// Work in order on one device. Calls return at once, the work happens later; one host thread at a time may issue.
// After a failure the stream does no more work, though its events still pass; `sync` throws what went wrong.
class Stream {
 public:
  virtual ~Stream() = default;
  // Either end may be this device's memory, a peer's or the host's. The ranges do not overlap. Zero bytes is no work.
  virtual void copy(const void* from, void* to, std::size_t bytes) = 0;
  // into[i] = into[i] (op) from[i] for `count` elements, into this device's memory. `from` is this device's too, or
  // that of a peer whose memory it can read (Devices::route).
  virtual void reduce(const void* from, void* into, std::size_t count, const Reduction&) = 0;
  virtual Event record(Timing = Timing::off) = 0;
  // Work issued after this starts only when the event has passed.
  virtual void wait(const Event&) = 0;
  // Blocks the caller until all work issued has ended. Throws the stream's failure, or TimedOut past the deadline.
  virtual void sync() = 0;
  virtual Device& device() const = 0;
};

// Memory of one device, freed with it. Fresh memory holds 0xFF in every byte (NaN in the floating-point types), so that
// a read before a write shows. Aligned to 256 bytes at least.
class Buffer {
 public:
  Buffer() = default;
  Buffer(std::shared_ptr<void> memory, std::size_t bytes) : memory_(std::move(memory)), bytes_(bytes) {}
  std::byte* data() const { return static_cast<std::byte*>(memory_.get()); }
  std::size_t bytes() const { return bytes_; }

 private:
  std::shared_ptr<void> memory_;
  std::size_t bytes_ = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  // Throws OutOfMemory with the bytes asked for when there is not so much.
  virtual Buffer allocate(std::size_t bytes) = 0;
  virtual std::unique_ptr<Stream> make_stream() = 0;
  virtual std::string name() const = 0;
  // That `allocate` gave out and that is still held.
  std::size_t allocated_bytes() const { return *allocated_; }

 protected:
  // A buffer that is counted as long as it lives: what `allocate` gives.
  Buffer counted(std::shared_ptr<void> memory, std::size_t bytes) const {
    if (!memory) return {};
    *allocated_ += bytes;
    void* data = memory.get();
    return {std::shared_ptr<void>(
                data, [memory = std::move(memory), allocated = allocated_, bytes](void*) { *allocated -= bytes; }),
            bytes};
  }

 private:
  std::shared_ptr<std::atomic<std::size_t>> allocated_ = std::make_shared<std::atomic<std::size_t>>(0);
};

// Work that was recorded once and is launched many times.
class Recording {
 public:
  virtual ~Recording() = default;
  // Starts after what the anchor stream was given so far; the anchor's later work starts after it.
  virtual void launch() = 0;
};

// The devices of one point of a sweep: rank r runs on device r.
class Devices {
 public:
  virtual ~Devices() = default;
  virtual int size() const = 0;
  virtual Device& operator[](int rank) const = 0;
  // As written on the command line: "cpu:4".
  virtual std::string text() const = 0;
  // Host threads that a device computes with (CPU devices), else 1.
  virtual int threads() const = 0;
  // True when devices share a processor or a GPU, so that their times are not those of separate ones.
  virtual bool oversubscribed() const = 0;
  // Records what `issue` gives to this set's streams instead of doing it. Begins on `anchor`; every other stream must
  // wait for an event of it first, and be waited for by the anchor at the end: an unjoined stream is an Error.
  virtual std::unique_ptr<Recording> record(Stream& anchor, const std::function<void()>& issue) = 0;
  // How rank `reader` reaches the memory of rank `owner`. Unless it is staged, a reduce of the reader may take its
  // `from` there.
  virtual Route route(int /*reader*/, int /*owner*/) const { return Route::shared; }
  // True of devices that only pretend to be what they are, as tests make them: their times are worth nothing.
  virtual bool emulated() const { return false; }
  // What was found wrong with these devices and worked around; one line each.
  virtual std::vector<std::string> warnings() const { return {}; }
  // Seconds from one timed event to another, both passed, both recorded on the same stream.
  virtual double seconds_between(const Event& begin, const Event& end) const = 0;
};

struct DeviceSettings {
  int threads = 0;                             // of a CPU device; 0: cores / devices, at least 1
  double timeout_seconds = 60.0;               // of every wait
  Transport transport = Transport::automatic;  // between GPUs
  int sharers = 1;                             // processes that use the same cores, this one counted
  // Called by the thread that waited, before TimedOut is thrown and anything is unwound: the place to save what is
  // there and leave the process, while nothing that stuck work touches was freed.
  std::function<void(const TimedOut&)> on_timeout = nullptr;
};

// "cpu:1,cpu:2" -> {"cpu:1", "cpu:2"}: the points of a --device list. A comma separates points, '+' joins devices into
// one point, an element without a kind continues the one before. Throws UsageError.
std::vector<std::string> device_points(std::string_view list);

// All GPUs where there are any, else "cpu:2".
std::string default_point();

// Opens the devices of one point. Throws UsageError for what cannot be understood or is not there.
std::unique_ptr<Devices> open_devices(std::string_view point, const DeviceSettings& = {});

}  // namespace harness
