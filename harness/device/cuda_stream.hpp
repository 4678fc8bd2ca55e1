// SPDX-License-Identifier: Apache-2.0
// The streams of cuda.cpp, and what all streams of one set of GPUs share.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "harness/device/cuda_native.hpp"
#include "harness/device/device.hpp"

namespace harness {

// A handle of CUDA's, destroyed with its owner.
template <typename Handle, cudaError_t (*destroy)(Handle)>
class Owned {
 public:
  Owned() = default;
  explicit Owned(Handle handle) : handle_(handle) {}
  Owned(Owned&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Owned() {
    if (handle_) destroy(handle_);
  }
  Handle get() const { return handle_; }

 private:
  Handle handle_ = nullptr;
};
using OwnedStream = Owned<cudaStream_t, cudaStreamDestroy>;
using OwnedEvent = Owned<cudaEvent_t, cudaEventDestroy>;

// Which GPU an address belongs to. Addresses are unique over all GPUs and the host, so one table knows them all.
class GpuMemory {
 public:
  void add(const void* begin, std::size_t bytes, int gpu) { ranges_[address(begin)] = {bytes, gpu}; }
  void remove(const void* begin) { ranges_.erase(address(begin)); }
  // -1 for what was not allocated here, which is host memory.
  int gpu_of(const void* data) const {
    auto after = ranges_.upper_bound(address(data));
    if (after == ranges_.begin()) return -1;
    const auto& [begin, range] = *--after;
    return address(data) - begin < range.bytes ? range.gpu : -1;
  }

 private:
  struct Range {
    std::size_t bytes;
    int gpu;
  };
  static std::uintptr_t address(const void* data) { return reinterpret_cast<std::uintptr_t>(data); }
  std::map<std::uintptr_t, Range> ranges_;
};

// Events cost a call to make; those that nobody refers to any more are recorded again.
class EventPool {
 public:
  OwnedEvent take(int gpu, Timing timing);
  void give_back(OwnedEvent event, int gpu, Timing timing) { free_[{gpu, timing}].push_back(std::move(event)); }

 private:
  std::map<std::pair<int, Timing>, std::vector<OwnedEvent>> free_;
};

struct CudaContext {
  double timeout_seconds = 60;
  std::function<void(const TimedOut&)> on_timeout;
  GpuMemory memory;
  std::shared_ptr<EventPool> events = std::make_shared<EventPool>();
  std::map<int, int> blocks;                    // of a GPU: how many of a kernel's fill it
  std::map<std::pair<int, int>, Route> routes;  // of two GPUs: how the first reaches the second's memory
  bool recording = false;

  Route route(int reader, int owner) const { return reader == owner ? Route::shared : routes.at({reader, owner}); }
};

class CudaEvent : public Event::State {
 public:
  CudaEvent(std::shared_ptr<EventPool> pool, int gpu, Timing timing, const Stream* stream)
      : pool_(std::move(pool)), gpu_(gpu), timing_(timing), stream_(stream), event_(pool_->take(gpu, timing)) {}
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;
  ~CudaEvent() override { pool_->give_back(std::move(event_), gpu_, timing_); }
  cudaEvent_t get() const { return event_.get(); }
  Timing timing() const { return timing_; }
  const Stream* stream() const { return stream_; }

 private:
  std::shared_ptr<EventPool> pool_;
  int gpu_;
  Timing timing_;
  const Stream* stream_;
  OwnedEvent event_;
};

// A copy between two GPUs by way of host memory: one stream on either GPU, and two pinned halves between them, so that
// both hops move at once. What CUDA itself does without peer access, but under our eyes, and also inside a graph.
class Staging {
 public:
  // `lane` is the stream that the copy is ordered in, of GPU `own`; the other end is GPU `other`.
  // It pulls from there, or pushes.
  Staging(cudaStream_t lane, int own, int other, bool pulls);
  void copy(const void* from, void* to, std::size_t bytes);

 private:
  struct Half {
    OwnedEvent filled, drained;
  };
  bool pulls_;
  cudaStream_t lane_;
  OwnedStream helper_;
  std::shared_ptr<void> memory_;
  OwnedEvent forked_, joined_;
  std::array<Half, 2> halves_;
};

class CudaStream : public Stream {
 public:
  CudaStream(Device& device, int gpu, std::shared_ptr<CudaContext> context);

  void copy(const void* from, void* to, std::size_t bytes) override;
  void reduce(const void* from, void* into, std::size_t count, const Reduction& reduction) override;
  Event record(Timing timing) override;
  void wait(const Event& event) override;
  void sync() override;
  Device& device() const override { return device_; }

  cudaStream_t get() const { return stream_.get(); }
  const CudaContext& context() const { return *context_; }

 private:
  void require_recorded() const;
  bool is_recorded() const;
  void staged(int other, const void* from, void* to, std::size_t bytes, bool pulls);

  Device& device_;
  const int gpu_;
  std::shared_ptr<CudaContext> context_;
  OwnedStream stream_;
  std::map<std::pair<int, bool>, std::unique_ptr<Staging>> stagings_;  // by the other GPU, and whether it pulls
};

}  // namespace harness
