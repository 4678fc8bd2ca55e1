// SPDX-License-Identifier: Apache-2.0
// The functions of the CUDA runtime that this project calls, for the fake machine. They refuse what the real ones
// refuse, with the same codes; NVIDIA's documentation of the runtime API (CUDA 13) says which.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "tests/fake_cuda/machine.hpp"

using fake::Access;
using fake::Event;
using fake::Machine;
using fake::misuse;
using fake::NodePointer;
using fake::Stream;

namespace {

struct Config {
  dim3 grid, block;
  std::size_t shared;
  cudaStream_t stream;
};
thread_local std::vector<Config> configs;
std::map<const void*, std::string>& kernel_names() {
  static std::map<const void*, std::string> names;
  return names;
}

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// Every function: one caller at a time, some of the ready work, an injected failure.
#define BEGIN(function)                                            \
  Machine& machine = Machine::instance();                          \
  const std::lock_guard<std::recursive_mutex> lock(machine.mutex); \
  if (const cudaError_t injected = machine.enter(#function); injected != cudaSuccess) return injected

// A copy whose two ends are known; which GPU does it depends on the stream.
cudaError_t copy(Machine& machine, Stream& stream, void* to, const void* from, std::size_t bytes, bool by_peer) {
  if (bytes == 0) return cudaSuccess;
  const bool stuck = ++machine.copies == machine.hanging_copy;
  const int gpu = stream.gpu;
  machine.issue(stream, {[&machine, gpu, to, from, bytes, by_peer] {
                  const auto source = machine.owner({from, bytes}, "a copy");
                  const auto target = machine.owner({to, bytes}, "a copy");
                  if (!by_peer) {
                    if (source && *source >= 0) machine.require_reach(gpu, {from, bytes}, "a copy");
                    if (target && *target >= 0) machine.require_reach(gpu, {to, bytes}, "a copy");
                  }
                  std::memmove(to, from, bytes);
                  if (source && target && machine.corrupt.contains({*source, *target})) {
                    static_cast<unsigned char*>(to)[bytes / 2] ^= 0x10U;
                  }
                }},
                {}, stuck);
  return cudaSuccess;
}

// Whether `part` of a capture comes before `last`, or is it.
bool precedes(const fake::Capture& capture, std::size_t part, const std::vector<std::size_t>& last) {
  std::vector<std::size_t> open = last;
  std::vector<bool> seen(capture.parts.size(), false);
  while (!open.empty()) {
    const std::size_t at = open.back();
    open.pop_back();
    if (at == part) return true;
    if (seen[at]) continue;
    seen[at] = true;
    open.insert(open.end(), capture.parts[at].after.begin(), capture.parts[at].after.end());
  }
  return false;
}

struct Graph {
  std::shared_ptr<fake::Capture> capture;
};

}  // namespace

extern "C" {

// --- kernels, as nvcc's host code registers and launches them ---

void** __cudaRegisterFatBinary(void*) {
  static void* handle = nullptr;
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
void __cudaRegisterFunction(void**, const char* host, char*, const char* name, int, uint3*, uint3*, dim3*, dim3*,
                            int*) {
  kernel_names()[host] = name;
}
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared, cudaStream_t stream) {
  configs.push_back({grid, block, shared, stream});
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared, void* stream) {
  const Config config = configs.back();
  configs.pop_back();
  *grid = config.grid;
  *block = config.block;
  *shared = config.shared;
  *static_cast<cudaStream_t*>(stream) = config.stream;
  return cudaSuccess;
}
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* host) {
  *kernel = static_cast<cudaKernel_t>(const_cast<void*>(host));
  return cudaSuccess;
}
cudaError_t cudaLaunchKernel(const void* kernel, dim3 grid, dim3 block, void** arguments, std::size_t,
                             cudaStream_t handle) {
  BEGIN(cudaLaunchKernel);
  const auto name = kernel_names().find(kernel);
  if (name == kernel_names().end()) misuse("a kernel is launched that was never registered");
  Stream* stream = machine.find(handle);
  if (stream->gpu != machine.current) return machine.fail(cudaErrorInvalidResourceHandle);
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || block.x * block.y * block.z == 0 ||
      block.x * block.y * block.z > 1024) {
    return machine.fail(cudaErrorInvalidConfiguration);
  }
  const auto bound = fake::bind_kernel(name->second, arguments);
  if (!bound) misuse("no body is known for the kernel " + name->second);
  const fake::Launch launch{grid, block, stream->gpu};
  machine.issue(*stream, (*bound)(launch));
  if (++machine.kernels == machine.late_kernel && !stream->capture) stream->last->late = true;
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments, std::size_t shared,
                               cudaStream_t stream) {
  return cudaLaunchKernel(kernel, grid, block, arguments, shared, stream);
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void*, int threads, std::size_t) {
  BEGIN(cudaOccupancyMaxActiveBlocksPerMultiprocessor);
  *blocks = fake::threads_of_processor / threads;
  return cudaSuccess;
}

// --- devices ---

cudaError_t cudaGetDeviceCount(int* count) {
  BEGIN(cudaGetDeviceCount);
  *count = machine.gpus;
  return machine.gpus > 0 ? cudaSuccess : machine.fail(cudaErrorNoDevice);
}
cudaError_t cudaSetDevice(int gpu) {
  BEGIN(cudaSetDevice);
  if (gpu < 0 || gpu >= machine.gpus) return machine.fail(cudaErrorInvalidDevice);
  machine.current = gpu;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* gpu) {
  BEGIN(cudaGetDevice);
  *gpu = machine.current;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  BEGIN(cudaDeviceGetAttribute);
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount: *value = fake::processors; break;
    case cudaDevAttrMaxThreadsPerMultiProcessor: *value = fake::threads_of_processor; break;
    case cudaDevAttrComputeCapabilityMajor: *value = machine.capability; break;
    case cudaDevAttrClockRate: *value = 1000000; break;
    default: misuse("the fake machine knows nothing of attribute " + std::to_string(attribute));
  }
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int gpu) {
  BEGIN(cudaGetDeviceProperties);
  if (gpu < 0 || gpu >= machine.gpus) return machine.fail(cudaErrorInvalidDevice);
  std::memset(properties, 0, sizeof *properties);
  std::strcpy(properties->name, "Emulated GPU");
  properties->totalGlobalMem = machine.memory_bytes;
  properties->major = machine.capability;
  properties->multiProcessorCount = fake::processors;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int gpu) {
  BEGIN(cudaDeviceGetPCIBusId);
  std::snprintf(text, static_cast<std::size_t>(length), "0000:%02X:00.0", static_cast<unsigned>(gpu + 1));
  return cudaSuccess;
}
cudaError_t cudaDeviceGetP2PAttribute(int* value, cudaDeviceP2PAttr attribute, int reader, int owner) {
  BEGIN(cudaDeviceGetP2PAttribute);
  if (reader == owner) return machine.fail(cudaErrorInvalidDevice);
  const bool linked = machine.links.contains({reader, owner});
  *value = attribute == cudaDevP2PAttrAccessSupported || attribute == cudaDevP2PAttrNativeAtomicSupported ? linked : 0;
  return cudaSuccess;
}
cudaError_t cudaDeviceEnablePeerAccess(int owner, unsigned flags) {
  BEGIN(cudaDeviceEnablePeerAccess);
  if (flags != 0) return machine.fail(cudaErrorInvalidValue);
  if (!machine.links.contains({machine.current, owner})) return machine.fail(cudaErrorPeerAccessUnsupported);
  if (!machine.enabled.emplace(machine.current, owner).second) {
    return machine.fail(cudaErrorPeerAccessAlreadyEnabled);
  }
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

// --- errors ---

cudaError_t cudaGetLastError() {
  Machine& machine = Machine::instance();
  const std::lock_guard<std::recursive_mutex> lock(machine.mutex);
  return std::exchange(machine.last_error, cudaSuccess);
}
const char* cudaGetErrorName(cudaError_t status) {
  switch (status) {
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    case cudaErrorIllegalAddress: return "cudaErrorIllegalAddress";
    case cudaErrorNotReady: return "cudaErrorNotReady";
    case cudaErrorNoDevice: return "cudaErrorNoDevice";
    default: return "cudaError";
  }
}
const char* cudaGetErrorString(cudaError_t status) {
  thread_local std::string text;
  text = "error " + std::to_string(status) + " of the fake machine";
  return text.c_str();
}

// --- memory ---

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  BEGIN(cudaMalloc);
  *memory = machine.allocate(bytes, machine.current);
  return *memory ? cudaSuccess : machine.fail(cudaErrorMemoryAllocation);
}
cudaError_t cudaFree(void* memory) {
  BEGIN(cudaFree);
  if (!memory) return cudaSuccess;
  machine.run_all_of(machine.current);
  machine.release(memory, 0);
  return cudaSuccess;
}
cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned) {
  BEGIN(cudaHostAlloc);
  *memory = machine.allocate(bytes, -1);
  return *memory ? cudaSuccess : machine.fail(cudaErrorMemoryAllocation);
}
cudaError_t cudaFreeHost(void* memory) {
  BEGIN(cudaFreeHost);
  if (!memory) return cudaSuccess;
  for (int gpu = 0; gpu < machine.gpus; ++gpu) machine.run_all_of(gpu);
  machine.release(memory, -1);
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  BEGIN(cudaMemGetInfo);
  *total = machine.memory_bytes;
  *free = machine.memory_bytes - machine.used(machine.current);
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t handle) {
  BEGIN(cudaMemsetAsync);
  Stream* stream = machine.find(handle);
  machine.issue(*stream, {[&machine, memory, value, bytes, gpu = stream->gpu] {
    machine.require_reach(gpu, {memory, bytes}, "a memset");
    std::memset(memory, value, bytes);
  }});
  return cudaSuccess;
}
// Of device memory it returns before the work is done, as the real one may.
cudaError_t cudaMemset(void* memory, int value, std::size_t bytes) {
  return cudaMemsetAsync(memory, value, bytes, nullptr);
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind, cudaStream_t handle) {
  BEGIN(cudaMemcpyAsync);
  return copy(machine, *machine.find(handle), to, from, bytes, false);
}
cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                              std::size_t width, std::size_t height, cudaMemcpyKind, cudaStream_t handle) {
  BEGIN(cudaMemcpy2DAsync);
  if (width > to_pitch || width > from_pitch) return machine.fail(cudaErrorInvalidPitchValue);
  for (std::size_t row = 0; row < height; ++row) {
    copy(machine, *machine.find(handle), static_cast<char*>(to) + row * to_pitch,
         static_cast<const char*>(from) + row * from_pitch, width, false);
  }
  return cudaSuccess;
}
cudaError_t cudaMemcpyPeerAsync(void* to, int target, const void* from, int source, std::size_t bytes,
                                cudaStream_t handle) {
  BEGIN(cudaMemcpyPeerAsync);
  Stream* stream = machine.find(handle);
  if (stream->capture) {
    stream->capture->invalid = true;
    return machine.fail(cudaErrorStreamCaptureUnsupported);
  }
  if (machine.owner({from, bytes}, "a peer copy") != source || machine.owner({to, bytes}, "a peer copy") != target) {
    return machine.fail(cudaErrorInvalidValue);
  }
  return copy(machine, *stream, to, from, bytes, true);
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind) {
  BEGIN(cudaMemcpy);
  Stream* stream = machine.find(static_cast<cudaStream_t>(nullptr));
  copy(machine, *stream, to, from, bytes, true);
  machine.run_until([&] { return !stream->last || stream->last->done; });
  return cudaSuccess;
}

// --- streams and events ---

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* handle, unsigned flags) {
  BEGIN(cudaStreamCreateWithFlags);
  if (flags != cudaStreamNonBlocking) misuse("a stream that waits for the default stream is made");
  *handle = reinterpret_cast<cudaStream_t>(machine.make_stream());
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  BEGIN(cudaStreamDestroy);
  machine.destroy(machine.find(handle));
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t handle) {
  BEGIN(cudaStreamQuery);
  Stream* stream = machine.find(handle);
  if (stream->capture) return machine.fail(cudaErrorStreamCaptureUnsupported);
  if (!stream->last || stream->last->done) return cudaSuccess;
  for (int some = 0; some < 16 && machine.step(); ++some) {
  }
  return machine.fail(cudaErrorNotReady);
}
cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  BEGIN(cudaStreamSynchronize);
  Stream* stream = machine.find(handle);
  if (stream->capture) return machine.fail(cudaErrorStreamCaptureUnsupported);
  machine.run_until([&] { return !stream->last || stream->last->done; });
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* handle, unsigned flags) {
  BEGIN(cudaEventCreateWithFlags);
  *handle = reinterpret_cast<cudaEvent_t>(machine.make_event((flags & cudaEventDisableTiming) == 0));
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t handle) {
  BEGIN(cudaEventDestroy);
  machine.destroy(machine.find(handle));
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t stream_handle) {
  BEGIN(cudaEventRecord);
  Event* event = machine.find(handle);
  Stream* stream = machine.find(stream_handle);
  if (event->gpu != stream->gpu) return machine.fail(cudaErrorInvalidResourceHandle);
  event->recorded = true;
  event->capture = stream->capture;
  const auto passed_at = std::make_shared<double>(0);
  event->passed_at = passed_at;
  machine.issue(*stream, {[passed_at] { *passed_at = now(); }});
  if (stream->capture) {
    event->captured = stream->captured[0];
  } else {
    event->node = stream->last;
  }
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream_handle, cudaEvent_t handle, unsigned) {
  BEGIN(cudaStreamWaitEvent);
  Event* event = machine.find(handle);
  Stream* stream = machine.find(stream_handle);
  if (event->capture) {
    if (stream->capture && stream->capture != event->capture) return machine.fail(cudaErrorStreamCaptureMerge);
    if (!stream->capture) {
      stream->capture = event->capture;
      stream->captured.clear();
      event->capture->streams.push_back(stream);
    }
    stream->captured.push_back(event->captured);
    return cudaSuccess;
  }
  if (stream->capture) {
    stream->capture->invalid = true;
    return machine.fail(cudaErrorStreamCaptureIsolation);
  }
  if (event->recorded) machine.issue(*stream, {[] {}}, {event->node});
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  BEGIN(cudaEventElapsedTime);
  const Event *first = machine.find(begin), *last = machine.find(end);
  if (!first->timed || !last->timed || !first->recorded || !last->recorded || first->gpu != last->gpu) {
    return machine.fail(cudaErrorInvalidResourceHandle);
  }
  if (!first->node->done || !last->node->done) return machine.fail(cudaErrorNotReady);
  *milliseconds = static_cast<float>((*last->passed_at - *first->passed_at) * 1e3);
  return cudaSuccess;
}

// --- graphs ---

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode) {
  BEGIN(cudaStreamBeginCapture);
  Stream* stream = machine.find(handle);
  if (!handle || stream->capture) return machine.fail(cudaErrorIllegalState);
  stream->capture = std::make_shared<fake::Capture>();
  stream->capture->origin = stream;
  stream->captured.clear();
  return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  BEGIN(cudaStreamIsCapturing);
  const Stream* stream = machine.find(handle);
  *status = !stream->capture           ? cudaStreamCaptureStatusNone
            : stream->capture->invalid ? cudaStreamCaptureStatusInvalidated
                                       : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  Machine& machine = Machine::instance();
  const std::lock_guard<std::recursive_mutex> lock(machine.mutex);
  const cudaError_t injected = machine.enter("cudaStreamEndCapture");  // the capture ends also then
  Stream* stream = machine.find(handle);
  *graph = nullptr;
  if (!stream->capture || stream->capture->origin != stream) return machine.fail(cudaErrorIllegalState);
  const auto capture = stream->capture;
  const std::vector<std::size_t> last = stream->captured;
  bool joined = true;
  for (Stream* other : capture->streams) {
    for (const std::size_t part : other->captured) joined = joined && precedes(*capture, part, last);
    other->capture = nullptr;
    other->captured.clear();
  }
  stream->capture = nullptr;
  stream->captured.clear();
  if (injected != cudaSuccess) return injected;
  if (capture->invalid) return machine.fail(cudaErrorStreamCaptureInvalidated);
  if (!joined) return machine.fail(cudaErrorStreamCaptureUnjoined);
  *graph = reinterpret_cast<cudaGraph_t>(new Graph{capture});
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long) {
  BEGIN(cudaGraphInstantiate);
  *executable = reinterpret_cast<cudaGraphExec_t>(new Graph(*reinterpret_cast<Graph*>(graph)));
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t handle) {
  BEGIN(cudaGraphLaunch);
  Stream* stream = machine.find(handle);
  if (stream->capture) misuse("a graph is launched into a capture");
  std::vector<NodePointer> nodes;
  for (const auto& part : reinterpret_cast<Graph*>(executable)->capture->parts) {
    std::vector<NodePointer> after = {stream->last};
    for (const std::size_t before : part.after) after.push_back(nodes[before]);
    // Parts of a graph keep no stream: each is as free as its edges leave it.
    nodes.push_back(machine.push(1000 + static_cast<int>(nodes.size() % 64), part.gpu, part.work, std::move(after)));
  }
  machine.issue(*stream, {[] {}}, nodes);
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete reinterpret_cast<Graph*>(graph);
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  delete reinterpret_cast<Graph*>(executable);
  return cudaSuccess;
}

// --- for tests ---

// Draws other orders from now on.
void fake_cuda_seed(unsigned long seed) {
  Machine& machine = Machine::instance();
  const std::lock_guard<std::recursive_mutex> lock(machine.mutex);
  machine.reseed(seed);
}

// Reads the variables again, once all work has ended.
void fake_cuda_reset() {
  Machine& machine = Machine::instance();
  const std::lock_guard<std::recursive_mutex> lock(machine.mutex);
  machine.run_until([] { return false; });
  machine.configure();
}

}  // extern "C"
