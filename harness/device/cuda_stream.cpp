// SPDX-License-Identifier: Apache-2.0
#include "harness/device/cuda_stream.hpp"

#include <algorithm>
#include <thread>

#include "harness/clock.hpp"
#include "harness/device/kernels.hpp"

namespace harness {

namespace {

// Of one hop through the host: large enough that starting it costs little, small enough that the two hops overlap.
constexpr std::size_t half_bytes = 1 << 20;
// A waiting host looks all the time while an answer may come soon, and rarely once it is a long wait.
constexpr double seconds_of_looking = 0.02;
constexpr std::chrono::microseconds between_looks{100};

OwnedEvent make_event(int gpu, unsigned flags = cudaEventDisableTiming) {
  use_gpu(gpu);
  cudaEvent_t event = nullptr;
  check_cuda(cudaEventCreateWithFlags(&event, flags), "making an event");
  return OwnedEvent(event);
}

OwnedStream make_stream(int gpu) {
  use_gpu(gpu);
  cudaStream_t stream = nullptr;
  check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking),
             "making a stream of GPU " + std::to_string(gpu));
  return OwnedStream(stream);
}

}  // namespace

bool is_sticky(cudaError_t status) {
  switch (status) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorAssert:
    case cudaErrorECCUncorrectable: return true;
    default: return false;
  }
}

void check_cuda(cudaError_t status, const std::string& doing) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // so that the next call does not report it again
  const std::string text = doing + ": " + cudaGetErrorName(status) + ": " + cudaGetErrorString(status);
  if (status == cudaErrorMemoryAllocation) throw OutOfMemory(text);
  if (is_sticky(status)) throw DeviceLost(text);
  throw Error(text);
}

void fail_on_gpu(std::string_view doing, const std::string& said) {
  const std::string text = std::string(doing).append(": ").append(said);
  // Every call fails once the GPUs are lost, also one that only asks; "not ready" may be the answer otherwise.
  const cudaError_t kept = cudaGetLastError(), now = cudaStreamQuery(nullptr);
  cudaGetLastError();
  for (const cudaError_t status : {kept, now}) {
    if (is_sticky(status)) check_cuda(status, text);
  }
  throw Error(text);
}

std::shared_ptr<void> allocate_pinned(std::size_t bytes) {
  void* memory = nullptr;
  check_cuda(cudaHostAlloc(&memory, bytes, cudaHostAllocPortable),
             "taking " + std::to_string(bytes) + " bytes of pinned host memory");
  return {memory, [](void* taken) { cudaFreeHost(taken); }};
}

void use_gpu(int gpu) { check_cuda(cudaSetDevice(gpu), "choosing GPU " + std::to_string(gpu)); }

OwnedEvent EventPool::take(int gpu, Timing timing) {
  auto& free = free_[{gpu, timing}];
  if (free.empty()) return make_event(gpu, timing == Timing::on ? cudaEventDefault : cudaEventDisableTiming);
  OwnedEvent event = std::move(free.back());
  free.pop_back();
  return event;
}

Staging::Staging(cudaStream_t lane, int own, int other, bool pulls)
    : pulls_(pulls),
      lane_(lane),
      helper_(make_stream(other)),
      memory_(allocate_pinned(2 * half_bytes)),
      forked_(make_event(own)),
      joined_(make_event(other)) {
  for (Half& half : halves_) {
    half.filled = make_event(pulls ? other : own);
    half.drained = make_event(pulls ? own : other);
  }
}

void Staging::copy(const void* from, void* to, std::size_t bytes) {
  const cudaStream_t first = pulls_ ? helper_.get() : lane_, second = pulls_ ? lane_ : helper_.get();
  const std::string doing = "copying between GPUs through the host";
  check_cuda(cudaEventRecord(forked_.get(), lane_), doing);
  check_cuda(cudaStreamWaitEvent(helper_.get(), forked_.get(), 0), doing);
  for (std::size_t done = 0, piece = 0; done < bytes; done += half_bytes, ++piece) {
    const Half& half = halves_[piece % 2];
    const std::size_t size = std::min(half_bytes, bytes - done);
    std::byte* host = static_cast<std::byte*>(memory_.get()) + piece % 2 * half_bytes;
    if (piece >= 2) check_cuda(cudaStreamWaitEvent(first, half.drained.get(), 0), doing);
    check_cuda(cudaMemcpyAsync(host, static_cast<const std::byte*>(from) + done, size, cudaMemcpyDeviceToHost, first),
               doing);
    check_cuda(cudaEventRecord(half.filled.get(), first), doing);
    check_cuda(cudaStreamWaitEvent(second, half.filled.get(), 0), doing);
    check_cuda(cudaMemcpyAsync(static_cast<std::byte*>(to) + done, host, size, cudaMemcpyHostToDevice, second), doing);
    check_cuda(cudaEventRecord(half.drained.get(), second), doing);
  }
  check_cuda(cudaEventRecord(joined_.get(), helper_.get()), doing);
  check_cuda(cudaStreamWaitEvent(lane_, joined_.get(), 0), doing);
}

CudaStream::CudaStream(Device& device, int gpu, std::shared_ptr<CudaContext> context)
    : device_(device), gpu_(gpu), context_(std::move(context)), stream_(make_stream(gpu)) {}

bool CudaStream::is_recorded() const {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check_cuda(cudaStreamIsCapturing(get(), &status), device_.name() + ": asking for a recording");
  return status == cudaStreamCaptureStatusActive;
}

// Without this, work on a stream that was not forked would happen at once, and be missing from the graph.
void CudaStream::require_recorded() const {
  if (context_->recording && !is_recorded()) {
    throw Error(device_.name() + " was recorded without waiting for the anchor");
  }
}

void CudaStream::staged(int other, const void* from, void* to, std::size_t bytes, bool pulls) {
  auto& staging = stagings_[{other, pulls}];
  if (!staging) staging = std::make_unique<Staging>(get(), gpu_, other, pulls);
  staging->copy(from, to, bytes);
}

void CudaStream::copy(const void* from, void* to, std::size_t bytes) {
  if (bytes == 0) return;
  require_recorded();
  const int source = context_->memory.gpu_of(from), target = context_->memory.gpu_of(to);
  const bool between_gpus = source >= 0 && target >= 0 && source != target;
  const bool pulls = target == gpu_;
  if (between_gpus && context_->route(gpu_, pulls ? source : target) == Route::staged) {
    return staged(pulls ? source : target, from, to, bytes, pulls);
  }
  const std::string doing = device_.name() + ": copying " + std::to_string(bytes) + " bytes";
  // A peer copy is refused while a graph is recorded; a copy by address means the same where peers can be reached.
  if (between_gpus && !context_->recording) {
    check_cuda(cudaMemcpyPeerAsync(to, target, from, source, bytes, get()), doing);
  } else {
    check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, get()), doing);
  }
}

void CudaStream::reduce(const void* from, void* into, std::size_t count, const Reduction& reduction) {
  if (count == 0) return;
  require_recorded();
  use_gpu(gpu_);
  check_cuda(kernels::launch_reduce(from, into, count, reduction, context_->blocks.at(gpu_), get()),
             device_.name() + ": reducing " + std::to_string(count) + " elements");
}

Event CudaStream::record(Timing timing) {
  require_recorded();
  if (context_->recording && timing == Timing::on) throw Error("a timed event cannot be part of a recording");
  auto state = std::make_shared<CudaEvent>(context_->events, gpu_, timing, this);
  check_cuda(cudaEventRecord(state->get(), get()), device_.name() + ": recording an event");
  return {std::move(state), 0};
}

void CudaStream::wait(const Event& event) {
  if (!event) return;
  const auto* state = dynamic_cast<const CudaEvent*>(event.state().get());
  if (!state) throw Error("a CUDA stream cannot wait for an event of another kind of device");
  check_cuda(cudaStreamWaitEvent(get(), state->get(), 0), device_.name() + ": waiting for an event");
  if (context_->recording && !is_recorded()) {
    throw Error("a stream that is being recorded cannot wait for an event from outside of the recording");
  }
}

void CudaStream::sync() {
  const double begin = steady_seconds();
  while (true) {
    const cudaError_t status = cudaStreamQuery(get());
    if (status == cudaSuccess) return;
    if (status != cudaErrorNotReady) check_cuda(status, device_.name() + ": waiting for its work");
    cudaGetLastError();  // "not ready" is kept there too, and the next launch would report it
    const double waited = steady_seconds() - begin;
    if (waited > context_->timeout_seconds) break;
    if (waited > seconds_of_looking) std::this_thread::sleep_for(between_looks);
  }
  const TimedOut error(device_.name() + " did not finish its work within " + std::to_string(context_->timeout_seconds) +
                       " s");
  if (context_->on_timeout) context_->on_timeout(error);
  throw error;
}

cudaStream_t native_stream(Stream& stream) {
  auto* cuda = dynamic_cast<CudaStream*>(&stream);
  if (!cuda) throw Error(stream.device().name() + " has no CUDA stream");
  return cuda->get();
}

}  // namespace harness
