// SPDX-License-Identifier: Apache-2.0
#include "harness/device/cuda.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <deque>
#include <optional>

#include "harness/device/cuda_links.hpp"
#include "harness/device/cuda_stream.hpp"
#include "harness/device/kernels.hpp"

namespace harness {

namespace {

constexpr int most_ranks_on_a_gpu = 64;
constexpr std::size_t probe_bytes = (256 << 10) + 13;  // an odd tail, as real chunks have

constexpr std::string_view emulated_model = "Emulated GPU";  // what a stand-in for the CUDA libraries calls its GPUs

[[noreturn]] void refuse(std::string_view point, const std::string& why) {
  throw UsageError(std::string("--device=").append(point).append(": ").append(why));
}

// More connections than this many streams share, and they wait for each other without need; read once, by the first
// call of a process.
cudaError_t count_gpus(int& count) {
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess) cudaGetLastError();
  return status;
}

class CudaDevice : public Device {
 public:
  CudaDevice(int gpu, std::string name, std::shared_ptr<CudaContext> context)
      : gpu_(gpu), name_(std::move(name)), context_(std::move(context)) {}

  Buffer allocate(std::size_t bytes) override {
    return allocate(bytes,
                    {[bytes](void** memory) { return cudaMalloc(memory, bytes); }, [](void* data) { cudaFree(data); }});
  }
  Buffer allocate(std::size_t bytes, const MemorySource& source) {
    if (bytes == 0) return {};
    use_gpu(gpu_);
    void* memory = nullptr;
    const cudaError_t status = source.take(&memory);
    if (status == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      std::size_t free = 0, total = 0;
      check_cuda(cudaMemGetInfo(&free, &total), name_ + ": asking for free memory");
      throw OutOfMemory(name_ + " has " + std::to_string(free) + " bytes of memory free, and " + std::to_string(bytes) +
                        " are needed");
    }
    check_cuda(status, name_ + ": taking " + std::to_string(bytes) + " bytes");
    context_->memory.add(memory, bytes, gpu_);
    std::shared_ptr<void> owner(memory, [context = context_, gpu = gpu_, give_back = source.give_back](void* data) {
      context->memory.remove(data);
      if (cudaSetDevice(gpu) == cudaSuccess) give_back(data);
    });
    check_cuda(cudaMemset(memory, 0xFF, bytes), name_ + ": filling fresh memory");
    check_cuda(cudaStreamSynchronize(nullptr), name_ + ": filling fresh memory");
    return counted(std::move(owner), bytes);
  }
  std::unique_ptr<Stream> make_stream() override { return std::make_unique<CudaStream>(*this, gpu_, context_); }
  std::string name() const override { return name_; }
  int gpu() const { return gpu_; }

 private:
  int gpu_;
  std::string name_;
  std::shared_ptr<CudaContext> context_;
};

class CudaRecording : public Recording {
 public:
  CudaRecording(cudaGraph_t graph, CudaStream& anchor) : anchor_(anchor.get()) {
    cudaGraphExec_t executable = nullptr;
    check_cuda(cudaGraphInstantiate(&executable, graph, 0), "making a recorded graph executable");
    executable_ = Owned<cudaGraphExec_t, cudaGraphExecDestroy>(executable);
  }
  void launch() override { check_cuda(cudaGraphLaunch(executable_.get(), anchor_), "launching a recorded graph"); }

 private:
  cudaStream_t anchor_;
  Owned<cudaGraphExec_t, cudaGraphExecDestroy> executable_;
};

class CudaDevices : public Devices {
 public:
  CudaDevices(std::string text, const std::vector<int>& gpus, const DeviceSettings& settings) : text_(std::move(text)) {
    context_->timeout_seconds = settings.timeout_seconds;
    context_->on_timeout = settings.on_timeout;
    for (const int gpu : gpus) {
      const bool shared = std::count(gpus.begin(), gpus.end(), gpu) > 1;
      std::string name = "cuda:" + std::to_string(gpu);
      if (shared) name += " rank " + std::to_string(devices_.size());
      devices_.emplace_back(gpu, std::move(name), context_);
      if (shared) oversubscribed_ = true;
      if (context_->blocks.contains(gpu)) continue;
      context_->blocks[gpu] = blocks_of(gpu);
      cudaDeviceProp properties{};
      check_cuda(cudaGetDeviceProperties(&properties, gpu), "asking what GPU " + std::to_string(gpu) + " is");
      if (properties.name == emulated_model) emulated_ = true;
    }
    for (const auto& [reader, blocks] : context_->blocks) {
      for (const auto& [owner, others] : context_->blocks) {
        if (reader != owner) connect(reader, owner, settings.transport);
      }
    }
    for (const auto& [pair, route] : context_->routes) {
      if (route != Route::staged) probe(pair.first, pair.second, settings.transport);
    }
  }

  int size() const override { return static_cast<int>(devices_.size()); }
  Device& operator[](int rank) const override { return devices_.at(rank); }
  std::string text() const override { return text_; }
  int threads() const override { return 1; }
  bool oversubscribed() const override { return oversubscribed_; }
  Route route(int reader, int owner) const override {
    return context_->route(devices_.at(reader).gpu(), devices_.at(owner).gpu());
  }
  bool emulated() const override { return emulated_; }
  std::vector<std::string> warnings() const override { return warnings_; }

  std::unique_ptr<Recording> record(Stream& anchor, const std::function<void()>& issue) override {
    auto* origin = dynamic_cast<CudaStream*>(&anchor);
    if (!origin || &origin->context() != context_.get()) throw Error("the anchor is not a stream of these devices");
    if (context_->recording) throw Error("a recording cannot be made inside another one");
    // Relaxed: whoever issues may take memory meanwhile.
    check_cuda(cudaStreamBeginCapture(origin->get(), cudaStreamCaptureModeRelaxed), "beginning a recording");
    context_->recording = true;
    Owned<cudaGraph_t, cudaGraphDestroy> graph;
    const auto end = [&] {
      context_->recording = false;
      cudaGraph_t made = nullptr;
      const cudaError_t status = cudaStreamEndCapture(origin->get(), &made);
      graph = Owned<cudaGraph_t, cudaGraphDestroy>(made);
      return status;
    };
    try {
      issue();
    } catch (...) {
      end();
      cudaGetLastError();
      throw;
    }
    const cudaError_t status = end();
    if (status == cudaErrorStreamCaptureUnjoined) {
      cudaGetLastError();
      throw Error("a stream was not joined by the anchor of the recording");
    }
    check_cuda(status, "ending a recording");
    return std::make_unique<CudaRecording>(graph.get(), *origin);
  }

  double seconds_between(const Event& begin, const Event& end) const override {
    const auto* first = dynamic_cast<const CudaEvent*>(begin.state().get());
    const auto* last = dynamic_cast<const CudaEvent*>(end.state().get());
    if (!first || !last || first->timing() != Timing::on || last->timing() != Timing::on) {
      throw Error("only timed events have a time between them");
    }
    if (first->stream() != last->stream()) throw Error("two events of different streams have no time between them");
    float milliseconds = 0;
    check_cuda(cudaEventElapsedTime(&milliseconds, first->get(), last->get()), "reading the clock");
    return static_cast<double>(milliseconds) / 1e3;
  }

 private:
  static int blocks_of(int gpu) {
    int processors = 0, threads = 0;
    const std::string doing = "asking what GPU " + std::to_string(gpu) + " can do";
    check_cuda(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, gpu), doing);
    check_cuda(cudaDeviceGetAttribute(&threads, cudaDevAttrMaxThreadsPerMultiProcessor, gpu), doing);
    return processors * std::max(1, threads / kernels::threads_per_block);
  }

  void connect(int reader, int owner, Transport transport) {
    Route& route = context_->routes[{reader, owner}];
    route = transport == Transport::staged ? Route::staged : find_link(reader, owner).route;
    if (route == Route::staged) {
      if (transport != Transport::peer) return;
      throw UsageError("--transport=peer: GPU " + std::to_string(reader) + " cannot reach the memory of GPU " +
                       std::to_string(owner) + " directly; allowed here: auto, staged");
    }
    use_gpu(reader);
    const cudaError_t status = cudaDeviceEnablePeerAccess(owner, 0);
    if (status == cudaErrorPeerAccessAlreadyEnabled) {
      cudaGetLastError();
    } else {
      check_cuda(status, "giving GPU " + std::to_string(reader) + " access to GPU " + std::to_string(owner));
    }
  }

  // Fills the owner's memory with a pattern, lets the reader fetch it, and compares: with some settings of IOMMU and
  // PCIe access control, copies between peers arrive wrong while every call reports success.
  void probe(int reader, int owner, Transport transport) {
    std::vector<std::byte> sent(probe_bytes), got(probe_bytes);
    for (std::size_t i = 0; i < probe_bytes; ++i) {
      sent[i] = static_cast<std::byte>((i * 0x9E3779B97F4A7C15U + reader + 1) >> 56U);
    }
    CudaDevice at(reader, "cuda:" + std::to_string(reader), context_);
    const Buffer source = CudaDevice(owner, "cuda:" + std::to_string(owner), context_).allocate(probe_bytes);
    const Buffer target = at.allocate(probe_bytes);
    const auto stream = at.make_stream();
    stream->copy(sent.data(), source.data(), probe_bytes);
    stream->copy(source.data(), target.data(), probe_bytes);
    stream->copy(target.data(), got.data(), probe_bytes);
    stream->sync();
    if (sent == got) return;
    const std::string what = "what GPU " + std::to_string(reader) + " fetches from GPU " + std::to_string(owner) +
                             " directly arrives wrong (look at the IOMMU and at PCIe access control)";
    if (transport == Transport::peer) throw Error("--transport=peer: " + what);
    context_->routes[{reader, owner}] = Route::staged;
    warnings_.push_back(what + "; their copies go through the host");
  }

  std::string text_;
  bool oversubscribed_ = false, emulated_ = false;
  std::shared_ptr<CudaContext> context_ = std::make_shared<CudaContext>();
  mutable std::deque<CudaDevice> devices_;
  std::vector<std::string> warnings_;
};

std::optional<int> parse_number(std::string_view text) {
  int number = 0;
  const auto* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end || number < 0) return std::nullopt;
  return number;
}

// "0,2" -> {0, 2}; "0*8" -> eight times 0.
std::vector<int> parse_gpus(std::string_view point, std::string_view list, int available) {
  std::vector<int> gpus;
  const std::string there = available == 1 ? "only GPU 0 is there" : "GPUs 0 to " + std::to_string(available - 1);
  while (true) {
    const auto element = list.substr(0, list.find(','));
    const auto star = element.find('*');
    const auto gpu = parse_number(element.substr(0, star));
    const auto times = star == std::string_view::npos ? std::optional<int>(1) : parse_number(element.substr(star + 1));
    if (!gpu || !times || *times < 1 || *times > most_ranks_on_a_gpu) {
      refuse(point, "write GPUs as in cuda:0,2, or 1 to " + std::to_string(most_ranks_on_a_gpu) +
                        " ranks on one GPU as in cuda:0*8");
    }
    if (*gpu >= available) refuse(point, "there is no GPU " + std::to_string(*gpu) + "; allowed: " + there);
    if (std::find(gpus.begin(), gpus.end(), *gpu) != gpus.end()) {
      refuse(point, "GPU " + std::to_string(*gpu) +
                        " is named twice; several ranks on one GPU are written cuda:" + std::to_string(*gpu) + "*2");
    }
    gpus.insert(gpus.end(), *times, *gpu);
    if (element.size() == list.size()) return gpus;
    list.remove_prefix(element.size() + 1);
  }
}

}  // namespace

std::optional<int> gpu_if_any(const Device& device) {
  const auto* cuda = dynamic_cast<const CudaDevice*>(&device);
  return cuda ? std::optional<int>(cuda->gpu()) : std::nullopt;
}

bool is_gpu(const Device& device) { return gpu_if_any(device).has_value(); }

int gpu_of(const Device& device) {
  if (const auto gpu = gpu_if_any(device)) return *gpu;
  throw Error(device.name() + " is no GPU");
}

Buffer allocate_by(Device& device, std::size_t bytes, const MemorySource& source) {
  auto* cuda = dynamic_cast<CudaDevice*>(&device);
  if (!cuda) throw Error(device.name() + " is no GPU");
  return cuda->allocate(bytes, source);
}

int count_gpus() {
  int count = 0;
  return count_gpus(count) == cudaSuccess ? count : 0;
}

std::unique_ptr<Devices> open_cuda_devices(std::string_view point, std::string_view list,
                                           const DeviceSettings& settings) {
  int available = 0;
  const cudaError_t status = count_gpus(available);
  if (is_sticky(status)) check_cuda(status, "counting the GPUs");
  if (status != cudaSuccess || available == 0) {
    refuse(point, std::string("there is no GPU that CUDA can use here (") +
                      cudaGetErrorString(status == cudaSuccess ? cudaErrorNoDevice : status) +
                      "); look at what nvidia-smi says, install NVIDIA's driver where it is missing, or take cpu:2");
  }
  std::vector<int> gpus;
  if (list.empty() && point.ends_with(':')) refuse(point, "write GPUs as in cuda:0,2, or cuda for all of them");
  if (list.empty()) {
    for (int gpu = 0; gpu < available; ++gpu) gpus.push_back(gpu);
  } else {
    gpus = parse_gpus(point, list, available);
  }
  return std::make_unique<CudaDevices>(std::string(point), gpus, settings);
}

}  // namespace harness
